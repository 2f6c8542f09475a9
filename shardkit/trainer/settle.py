"""What a stage leaves open is decided, and what cannot be done is refused, before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import torch

from shardkit.engine.cores import num_cores
from shardkit.errors import ConfigError
from shardkit.loader.choices import number_of_environment
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.source import choose_split, read_lengths
from shardkit.store.dataset import Dataset
from shardkit.trainer.config import PREFERRING, TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.stage_records import StageRecord
from shardkit.trainer.stages import Stage

NEEDS: dict[str, str] = {
    "vlm-align": "texts with images (recipe vlm, vlm-sft and their like)",
    "lm": "texts without images (recipe pretrain)",
    "sft": "dialogues with answers (recipe sft)",
    "dpo": "preference pairs without images (recipe dpo)",
    "vlm-dpo": "preference pairs with images (recipe vlm-dpo)",
}
"""Task -> the dataset that it is for."""
COMPILERS = ("c++", "g++", "clang++")
"""One of them is what torch.compile calls on a CPU."""


def settle(stage: Stage, facts: Facts, dataset: Dataset, held: Sequence[StageRecord]) -> Stage:
    """`stage` with everything decided that it left open: by what it began with, by the dataset, by the machine.

    Args:
        held: records of the stages that the run has opened.

    Raises:
        ConfigError: where task and dataset, or mixture and dataset, do not fit, or something is not installed.
    """
    config = stage.config
    _check_tools(config)
    _check_task(config, facts)
    saved = held[stage.number]["settings"] if stage.number < len(held) else {}
    # torchrun says how many processes share the cores.
    threads = max(1, num_cores() // max(1, number_of_environment("LOCAL_WORLD_SIZE", 1)))
    mixture = None
    if config.mixture is not None:
        lengths = read_lengths(dataset, choose_split(dataset, facts.split))
        mixture = Mixture.of(config.mixture).weighed(lengths).to_json()
    return replace(
        stage,
        config=replace(
            config,
            max_tokens=config.max_tokens or saved.get("max_tokens", facts.longest),
            threads=config.threads or (held[0]["settings"]["threads"] if held else threads),
            mixture=mixture,
        ),
    )


def _check_tools(config: TrainConfig) -> None:
    """Refuse what this machine cannot do."""
    if config.tensorboard is not None and find_spec("tensorboardX") is None:
        raise ConfigError("--tensorboard needs tensorboardX", hint="install it: pip install 'shardkit[tensorboard]'")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "there is no CUDA device, or torch was built without",
            hint="leave out --device, or install a CUDA build of torch",
        )
    if config.compile and config.device == "cpu" and not any(map(shutil.which, COMPILERS)):
        raise ConfigError("--compile needs a C++ compiler", hint="install g++ or clang, or leave out --compile")


def _check_task(config: TrainConfig, facts: Facts) -> None:
    """Refuse a task that the dataset is not for, and weights that are not of its objectives."""
    fits = fitting_tasks(facts)
    if config.task not in fits:
        raise ConfigError(
            f"task {config.task} needs {NEEDS[config.task]}; the dataset has {facts.num_images} images "
            f"and targets of {', '.join(facts.objectives)}",
            hint=f"use --task {' or '.join(fits)}" if fits else "give --data a dataset of another recipe",
        )
    if config.task in PREFERRING:
        if config.objective_weights:
            raise ConfigError(
                f"task {config.task} has one loss, and nothing to weigh", hint="leave out --objective-weight"
            )
    elif not objective_weights(facts.objectives, config.objective_weights).sum():
        raise ConfigError("every objective has the weight 0, nothing is learned", hint="give one of them a weight")


def fitting_tasks(facts: Facts) -> tuple[str, ...]:
    """The names of TASKS that a dataset is for."""
    pairs = {"chosen", "rejected"} & set(facts.objectives)
    if pairs:
        return ("vlm-dpo",) if facts.num_images else ("dpo",)
    if facts.num_images:
        return ("vlm-align",)
    return ("sft", "lm") if "answer" in facts.objectives else ("lm",)
