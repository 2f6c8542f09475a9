"""What a run reads: the dataset of each stage, its loaders, and the weights to begin with.

All of it is opened and checked before the first step and before anything is written, so that no stage is refused hours
later and nothing is left behind where one is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import StreamingLoader
from shardkit.sequence.plan import Mixture
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import check_weights, make_model
from shardkit.trainer.checkpoint import load_checkpoint, steps_of
from shardkit.trainer.config import LIMITS, TrainConfig
from shardkit.trainer.facts import Facts, read_facts
from shardkit.trainer.held_out import HeldOut, check_split
from shardkit.trainer.settle import settle
from shardkit.trainer.stage_records import StageRecord, read_stage_records
from shardkit.trainer.stages import Stage


@dataclass(frozen=True, kw_only=True, slots=True)
class StageInputs:
    stage: Stage
    dataset: Dataset
    facts: Facts
    loaders: tuple[StreamingLoader, ...]
    """One a micro-step"""
    held_out: HeldOut | None


def open_inputs(stages: Sequence[Stage], rank: int, world_size: int, stack: ExitStack) -> list[StageInputs]:
    """What each stage reads; `stack` closes it.

    Raises:
        ConfigError: where a stage does not fit its dataset, or two of them have other tokens.
    """
    run = stages[0].config
    held = read_stage_records(run.out) if run.resume else []
    inputs: list[StageInputs] = []
    for stage in stages:
        try:
            inputs.append(open_stage(stage, held, rank, world_size, stack, first=inputs[0] if inputs else None))
        except ConfigError as error:
            if len(stages) == 1:
                raise
            raise ConfigError(f"stage {stage.name}: {error.what}", where=error.where, hint=error.hint) from error
    return inputs


def open_stage(
    stage: Stage,
    held: Sequence[StageRecord],
    rank: int,
    world_size: int,
    stack: ExitStack,
    *,
    first: StageInputs | None,
) -> StageInputs:
    """What one stage reads.

    Args:
        held: records of the stages that the run has opened.
        first: of the first stage, where this is another one.
    """
    dataset = Dataset.open(stage.config.data, base=stage.config.bases, remote=stage.config.remote)
    facts = read_facts(dataset, Mixture.of(stage.config.mixture) if stage.config.mixture is not None else None)
    if first and facts.tokenizer != first.facts.tokenizer:
        raise ConfigError(
            f"its tokenizer is {facts.tokenizer}, that of stage {first.stage.name} {first.facts.tokenizer}",
            where=str(stage.config.data),
            hint="tokenize the datasets of all stages with one tokenizer",
        )
    stage = settle(stage, facts, dataset, held)
    loaders = open_loaders(stage.config, facts, dataset, rank, world_size)
    for loader in loaders:
        stack.enter_context(loader)
    held_out = None
    if stage.config.eval_every:
        check_split(dataset, stage.config)
        held_out = HeldOut(dataset, stage.config, rank=rank, world_size=world_size)
        stack.enter_context(held_out.loader)
    return StageInputs(stage=stage, dataset=dataset, facts=facts, loaders=loaders, held_out=held_out)


def open_loaders(
    config: TrainConfig, facts: Facts, dataset: Dataset, rank: int, world_size: int
) -> tuple[StreamingLoader, ...]:
    """One a micro-step, which is to the loader what a rank is: one of the shares of a step.

    Raises:
        ConfigError: where an epoch has no batch.
    """
    loaders = tuple(
        StreamingLoader(
            dataset,
            split=facts.split,
            seed=config.seed,
            **{name: getattr(config, name) for name in LIMITS},
            global_batch=config.global_batch,
            packer=config.packer,
            decoder=config.decoder,
            mixture=config.mixture,
            device=config.device,
            rank=rank * config.micro_steps + part,
            world_size=world_size * config.micro_steps,
        )
        for part in range(config.micro_steps)
    )
    if not len(loaders[0]):
        raise too_few_packs()
    return loaders


def too_few_packs() -> ConfigError:
    return ConfigError(
        "an epoch has fewer packs than a global batch",
        hint="lower --global-batch, or lower --max-tokens; where the mixture limits every source by `repeat`, train fewer steps",
    )


def initial_weights(first: StageInputs) -> Mapping[str, Tensor] | None:
    """The weights that `init` names, where the run begins with them; they fit its model.

    Raises:
        ConfigError: where that run has no checkpoint, or is of another model or tokenizer.
        IntegrityError: where its checkpoint is damaged.
    """
    config = first.stage.config
    if config.init is None or (config.resume and steps_of(config.out / "checkpoints")):
        return None
    saved = load_checkpoint(config.init / "checkpoints")
    if saved is None:
        raise ConfigError(
            "the run has no checkpoint", where=str(config.init), hint="give --init the folder of a run that has one"
        )
    tokenizer = saved["stages"][-1]["facts"]["tokenizer"]
    if tokenizer != first.facts.tokenizer:
        raise ConfigError(
            f"the run was trained with the tokenizer {tokenizer}, the dataset has {first.facts.tokenizer}",
            where=str(config.init),
            hint="tokenize the dataset with the tokenizer of that run",
        )
    weights: Mapping[str, Tensor] = saved["model"]
    check_weights(make_model(config, first.facts, tower=first.stage.tower), weights, config.init)
    return weights


def remaining_stages(inputs: Sequence[StageInputs], saved: Mapping[str, Any] | None) -> Sequence[StageInputs]:
    """The stage that a checkpoint is of, and those after it; all of them where there is none.

    Raises:
        ResumeError: where that stage has come further than it is now to go, and another one follows.
    """
    if saved is None:
        return inputs
    left = inputs[len(saved["stages"]) - 1 :]
    stage = left[0].stage
    if saved["step"] > stage.last and len(left) > 1:
        raise ResumeError(
            f"stage {stage.name} was trained to step {saved['step']}, and is now to end with step {stage.last}",
            where=str(stage.config.out),
            hint=f"give it the {saved['step'] - stage.first + 1} steps that it has, or more",
        )
    return left
