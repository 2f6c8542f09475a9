"""What a run changes as it goes on: at the beginning of a stage, into a checkpoint, and back from one.

A stage is opened from what the one before left in the form of a checkpoint, whether that comes from the disk or from
the same process: a run that was killed at the border of two stages does what one that was not does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from shardkit.digest import fingerprint
from shardkit.sequence.plan import Mixture
from shardkit.trainer.build import (
    build_model,
    build_optimizer,
    take_moments,
    take_weights,
    trained_parameters,
    weights_digest,
)
from shardkit.trainer.clock import Clock
from shardkit.trainer.config import PREFERRING
from shardkit.trainer.counts import SourceShares
from shardkit.trainer.inputs import StageInputs
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.preference import PreferenceTask, references
from shardkit.trainer.ranks import failing_together
from shardkit.trainer.stage_records import StageRecord, append_stage_record, stage_record
from shardkit.trainer.stages import Stage
from shardkit.trainer.tasks import Task, TokenTask

NOTHING_THERE = "no checkpoint is there, it begins anew"
Checkpoint = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainState:
    """Of the stage that runs."""

    stage: Stage
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    task: Task
    clock: Clock
    inputs: StageInputs
    shares: SourceShares
    records: list[StageRecord]
    """Of this stage and those before it"""

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def checkpoint(self, step: int, loss: float) -> Checkpoint:
        """The loader's state is the same on every rank and for every micro-step."""
        return {
            "step": step,
            "loss": loss,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "trained": [name for name, _ in trained_parameters(self.model)],
            "scheduler": {
                "kind": self.stage.config.schedule,
                "step": step,
                "lr": self.stage.learning_rate(step),
            },
            "rng": torch.get_rng_state(),
            "stages": self.records,
            "shares": self.shares.totals,
            "loader": self.inputs.loaders[0].state_dict(),
        }


def begin_stage(
    inputs: StageInputs, saved: Checkpoint | None, *, initial: Mapping[str, Tensor] | None, rank: int
) -> tuple[TrainState, str]:
    """The state at the beginning of a stage, or in the middle of one; and what the loader promises there.

    Args:
        saved: what the run goes on from: a checkpoint of this stage, or what the stage before left. None at the start.
        initial: weights to start with instead of those that the seed gives.

    Raises:
        ResumeError: where the stage was opened before as another one.
        IntegrityError: where references are missing that the stage began with.
    """
    stage, config = inputs.stage, inputs.stage.config
    model = build_model(config, inputs.facts, tower=stage.tower)
    optimizer = build_optimizer(model, config)
    shares = SourceShares(
        sources=sorted(set(inputs.dataset.table("lengths", ["source"])["source"].to_pylist())),
        mixture=Mixture.of(config.mixture) if config.mixture else None,
    )
    goes_on = saved is not None and len(saved["stages"]) > stage.number
    note = NOTHING_THERE
    if saved is None:
        if initial is not None:
            take_weights(model, initial)
    elif not goes_on:
        take_weights(model, saved["model"])
        if not stage.reset_optimizer:
            take_moments(optimizer, model, saved["trained"], saved["optimizer"])
    else:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        shares.totals = saved["shares"]
        promises = [loader.load_state_dict(saved["loader"]) for loader in inputs.loaders]
        note = f"goes on after step {saved['step']}, {promises[0].value}"
    if saved is not None:
        torch.set_rng_state(saved["rng"])

    records = saved["stages"] if saved else []
    if not goes_on:
        names = fingerprint([name for name, _ in trained_parameters(model)])
        start = weights_digest(model)
        records = [*records, stage_record(stage, inputs.facts, start=start, trained=names, before=records)]
    if rank == 0:
        append_stage_record(config.out, records)
    state = TrainState(
        stage=stage,
        model=model,
        optimizer=optimizer,
        task=task_of(inputs, model, digest=records[-1]["start"], make=not goes_on, rank=rank),
        clock=Clock(model, inputs.loaders),
        inputs=inputs,
        shares=shares,
        records=records,
    )
    return state, note


def task_of(inputs: StageInputs, model: VisionLanguage, *, digest: str, make: bool, rank: int) -> Task:
    """What is learned in a stage.

    Args:
        digest: of the weights that the stage began with.
        make: whether the model has these weights.
    """
    config = inputs.stage.config
    if config.task not in PREFERRING:
        return TokenTask(weights=objective_weights(inputs.facts.objectives, config.objective_weights))
    found = partial(references, model, inputs.dataset, digest=digest, folder=config.out)
    with failing_together():
        # The first rank makes the file, the others read it.
        made = found(make=make) if rank == 0 else None
    return PreferenceTask(references=made or found(make=False), beta=config.beta)
