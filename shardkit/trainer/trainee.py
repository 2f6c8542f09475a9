"""What a run changes as it goes on: at the beginning of a stage, into a checkpoint, and back from one.

A stage is opened from what the one before left in the form of a checkpoint, whether that comes from the disk or from
the same process: a run that was killed at the border of two stages does what one that was not does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from shardkit.digest import fingerprint
from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import StreamingLoader
from shardkit.sequence.plan import Mixture
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import (
    POSITION_TABLE,
    build_model,
    build_optimizer,
    take_moments,
    take_weights,
    trained,
    weights_digest,
    weights_of,
)
from shardkit.trainer.clock import Clock
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.counts import Shares
from shardkit.trainer.facts import Facts, read_facts
from shardkit.trainer.held_out import HeldOut, check_split
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import objective_weights
from shardkit.trainer.preference import PreferenceTask, references
from shardkit.trainer.ranks import wait_for_all
from shardkit.trainer.run import append_stage_record, read_stage_records, settle, stage_record
from shardkit.trainer.stages import Stage
from shardkit.trainer.tasks import Task, TokenTask

NOTHING_THERE = "no checkpoint is there, it begins anew"
Content = dict[str, Any]
"""Of a checkpoint"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """What a stage reads."""

    stage: Stage
    dataset: Dataset
    facts: Facts
    loaders: tuple[StreamingLoader, ...]
    """One a micro-step"""
    held_out: HeldOut | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    stage: Stage
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    task: Task
    clock: Clock
    loaders: tuple[StreamingLoader, ...]
    shares: Shares
    records: list[dict[str, Any]]
    """Of this stage and those before it"""


def prepare(stages: Sequence[Stage], rank: int, world_size: int, stack: ExitStack) -> list[Ground]:
    """What each stage reads, all of it opened before the first one begins, so that none is refused hours later.

    Raises:
        ConfigError: where a stage does not fit its dataset, or two of them have other tokens.
    """
    run = stages[0].config
    held = read_stage_records(run.out) if run.resume else []
    grounds: list[Ground] = []
    for stage in stages:
        dataset = Dataset.open(stage.config.data, base=run.bases)
        facts = read_facts(dataset)
        if grounds and facts.tokenizer != grounds[0].facts.tokenizer:
            raise ConfigError(
                f"stage {stage.name} has the tokenizer {facts.tokenizer}, stage {stages[0].name} {grounds[0].facts.tokenizer}",
                where=str(dataset.path),
                hint="tokenize the datasets of all stages with one tokenizer",
            )
        stage = settle(stage, facts, dataset, held)
        loaders = open_loaders(stage.config, facts, dataset, rank, world_size)
        for loader in loaders:
            stack.callback(loader.close)
        held_out = None
        if stage.config.eval_every:
            check_split(dataset, stage.config)
            held_out = HeldOut(dataset, stage.config, rank=rank, world_size=world_size)
            stack.callback(held_out.close)
        grounds.append(Ground(stage=stage, dataset=dataset, facts=facts, loaders=loaders, held_out=held_out))
    return grounds


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
            packer=config.packer,
            mixture=config.mixture,
            rank=rank * config.micro_steps + part,
            world_size=world_size * config.micro_steps,
        )
        for part in range(config.micro_steps)
    )
    if not len(loaders[0]):
        raise too_few_packs()
    return loaders


def still_to_come(grounds: Sequence[Ground], saved: Content | None) -> Sequence[Ground]:
    """The stage that a checkpoint is of, and those after it; all of them where there is none.

    Raises:
        ResumeError: where that stage has come further than it is now to go, and another one follows.
    """
    if saved is None:
        return grounds
    left = grounds[len(saved["stages"]) - 1 :]
    stage = left[0].stage
    if saved["step"] > stage.last and len(left) > 1:
        raise ResumeError(
            f"stage {stage.name} was trained to step {saved['step']}, and is now to end with step {stage.last}",
            where=str(stage.config.out),
            hint=f"give it the {saved['step'] - stage.first + 1} steps that it has, or more",
        )
    return left


def enter(ground: Ground, saved: Content | None, *, rank: int) -> tuple[Trainee, str]:
    """The trainee of a stage, and a note with what the loader promises where it goes on in the middle.

    Args:
        saved: what the run goes on from: a checkpoint of this stage, or what the stage before left. None at the start.

    Raises:
        ConfigError: where weights of another run do not fit.
        ResumeError: where the stage was opened before as another one.
        IntegrityError: where references are missing that the stage began with.
    """
    stage, config = ground.stage, ground.stage.config
    model = build_model(config, ground.facts, tower=stage.tower)
    optimizer = build_optimizer(model, config)
    shares = Shares(
        sources=sorted(set(ground.dataset.table("lengths", ["source"])["source"].to_pylist())),
        mixture=Mixture.of(config.mixture) if config.mixture else None,
    )
    goes_on = saved is not None and len(saved["stages"]) > stage.number
    note = NOTHING_THERE
    if saved is None:
        if config.init is not None:
            take_weights(model, weights_of(config.init), config.init)
    elif not goes_on:
        new = {POSITION_TABLE} if config.positions != stage.positions_before else set()
        take_weights(model, saved["model"], config.out, new=new)
        if not stage.reset_optimizer:
            take_moments(optimizer, model, saved["trained"], saved["optimizer"])
    else:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        shares.totals = saved["shares"]
        promises = [loader.load_state_dict(saved["loader"]) for loader in ground.loaders]
        note = f"goes on after step {saved['step']}, {promises[0].value}"
    if saved is not None:
        torch.set_rng_state(saved["rng"])

    records = saved["stages"] if saved else []
    if not goes_on:
        names = fingerprint([name for name, _ in trained(model)])
        start = weights_digest(model)
        records = [*records, stage_record(stage, ground.facts, start=start, trained=names, before=records)]
    if rank == 0:
        append_stage_record(config.out, records)
    trainee = Trainee(
        stage=stage,
        model=model,
        optimizer=optimizer,
        task=task_of(ground, model, digest=records[-1]["start"], make=not goes_on, rank=rank),
        clock=Clock(model.vision),
        loaders=ground.loaders,
        shares=shares,
        records=records,
    )
    return trainee, note


def task_of(ground: Ground, model: VisionLanguage, *, digest: str, make: bool, rank: int) -> Task:
    """What is learned in a stage.

    Args:
        digest: of the weights that the stage began with.
        make: whether the model has these weights.
    """
    config = ground.stage.config
    if config.task != "dpo":
        return TokenTask(weights=objective_weights(ground.facts.objectives, config.objective_weights))
    found = partial(references, model, ground.dataset, digest=digest, folder=config.out)
    # The first rank makes the file, the others read it.
    made = found(make=make) if rank == 0 else None
    wait_for_all()
    return PreferenceTask(references=made or found(make=False), beta=config.beta)


def too_few_packs() -> ConfigError:
    return ConfigError(
        "an epoch has fewer packs than a global batch", hint="lower --global-batch, or lower --max-tokens"
    )


def content_of(trainee: Trainee, step: int, loss: float) -> Content:
    """A checkpoint. The loader's state is the same on every rank and for every micro-step."""
    config = trainee.stage.config
    return {
        "step": step,
        "loss": loss,
        "model": trainee.model.state_dict(),
        "optimizer": trainee.optimizer.state_dict(),
        "trained": [name for name, _ in trained(trainee.model)],
        "scheduler": {"kind": config.schedule, "step": step, "lr": trainee.stage.learning_rate(step)},
        "rng": torch.get_rng_state(),
        "stages": trainee.records,
        "shares": trainee.shares.totals,
        "loader": trainee.loaders[0].state_dict(),
    }
