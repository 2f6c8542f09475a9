"""What a run changes as it goes on: at its beginning, into a checkpoint, and back from one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import build_model, build_optimizer
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.run import refuse_changes, stage_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    config: TrainConfig
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    weights: Tensor
    """[objectives]"""
    loaders: tuple[StreamingLoader, ...]
    """One a micro-step"""
    stages: list[dict[str, Any]]


def begin(config: TrainConfig, facts: Facts, dataset: Dataset, rank: int, world_size: int) -> Trainee:
    """Everything at its start. A micro-step is to the loader what a rank is: one of the shares of a step.

    Raises:
        ConfigError: where an epoch has no batch.
    """
    model = build_model(config, facts)
    trainee = Trainee(
        config=config,
        model=model,
        optimizer=build_optimizer(model, config),
        weights=objective_weights(facts.objectives, config.objective_weights),
        loaders=tuple(
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
        ),
        stages=stage_record(config, facts),
    )
    if not len(trainee.loaders[0]):
        raise too_few_packs()
    return trainee


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
