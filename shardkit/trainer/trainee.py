"""What a run changes as it goes on: at its beginning, into a checkpoint, and back from one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import build_model, build_optimizer, take_weights, weights_digest
from shardkit.trainer.clock import Clock
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.preference import PreferenceTask, references
from shardkit.trainer.ranks import wait_for_all
from shardkit.trainer.run import refuse_changes, stage_record
from shardkit.trainer.tasks import Task, TokenTask


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    config: TrainConfig
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    task: Task
    clock: Clock
    loaders: tuple[StreamingLoader, ...]
    """One a micro-step"""
    stages: list[dict[str, Any]]


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
            max_tokens=config.max_tokens or facts.longest,
            global_batch=config.global_batch,
            rank=rank * config.micro_steps + part,
            world_size=world_size * config.micro_steps,
        )
        for part in range(config.micro_steps)
    )
    if not len(loaders[0]):
        raise too_few_packs()
    return loaders


def begin(
    config: TrainConfig,
    facts: Facts,
    dataset: Dataset,
    loaders: tuple[StreamingLoader, ...],
    *,
    rank: int,
    saved: dict[str, Any] | None,
) -> Trainee:
    """Everything at its start; what a checkpoint brings is still to be restored.

    Args:
        saved: the checkpoint that the run goes on from, where it does.

    Raises:
        ConfigError: where weights of another run do not fit.
        IntegrityError: where references are missing that the run began with.
    """
    model = build_model(config, facts)
    if saved is None and config.init is not None:
        take_weights(model, config.init)
    start = weights_digest(model) if saved is None else saved["stages"][-1]["start"]
    task: Task
    if config.task == "dpo":
        found = partial(references, model, dataset, digest=start, folder=config.out)
        # The first rank makes the file, the others read it.
        made = found(make=saved is None) if rank == 0 else None
        wait_for_all()
        task = PreferenceTask(references=made or found(make=False), beta=config.beta)
    else:
        task = TokenTask(weights=objective_weights(facts.objectives, config.objective_weights))
    return Trainee(
        config=config,
        model=model,
        optimizer=build_optimizer(model, config),
        task=task,
        clock=Clock(model.vision),
        loaders=loaders,
        stages=stage_record(config, facts, start=start),
    )


def too_few_packs() -> ConfigError:
    return ConfigError(
        "an epoch has fewer packs than a global batch", hint="lower --global-batch, or lower --max-tokens"
    )


def restore(trainee: Trainee, saved: dict[str, Any]) -> tuple[int, float, str]:
    """Put the trainee where its checkpoint left it; (step, its loss, a note with what the loader promises)."""
    refuse_changes(saved["stages"][-1], trainee.stages[-1], where=trainee.config.out)
    trainee.model.load_state_dict(saved["model"])
    trainee.optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["rng"])
    promises = [loader.load_state_dict(saved["loader"]) for loader in trainee.loaders]
    return saved["step"], saved["loss"], f"goes on after step {saved['step']}, {promises[0].value}"


def content_of(trainee: Trainee, step: int, loss: float) -> dict[str, Any]:
    """A checkpoint. The loader's state is the same on every rank and for every micro-step."""
    return {
        "step": step,
        "loss": loss,
        "model": trainee.model.state_dict(),
        "optimizer": trainee.optimizer.state_dict(),
        "scheduler": {"kind": "warm-up, then constant", "step": step},
        "rng": torch.get_rng_state(),
        "stages": trainee.stages,
        "loader": trainee.loaders[0].state_dict(),
    }
