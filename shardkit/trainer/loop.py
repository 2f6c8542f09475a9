"""A run, top to bottom.

    open the dataset  ->  settle what was left open  ->  trainee: new, or as its checkpoint has it
    each step:  batches -> losses -> numerators -> loss -> gradients -> sums over ranks -> update -> log
    every few steps, and at the end:  a checkpoint

On a CPU the weights after a step depend on dataset, settings and step only: a run that was killed anywhere and goes on
with `resume` ends with the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.loader.device import Batch
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import build_model, build_optimizer, repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import Facts, read_facts
from shardkit.trainer.metrics import Log
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import NUM_OBJECTIVES, by_name, combine, numerators, objective_weights
from shardkit.trainer.ranks import joined_ranks, sum_over_ranks, wait_for_all
from shardkit.trainer.run import locked, open_run, refuse_changes, settle, stage_record

COUNTS = ("sequences", "images", "pixels", "tokens", "supervised_tokens")
"""What the log counts of a step, over all ranks."""
Record = dict[str, Any]
"""One step, as it stands in the log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    rank: int
    step: int
    loss: float
    """Of the last step."""
    weights_digest: str
    """xxh3-128 over all parameters in the order of their names."""
    model: VisionLanguage
    config: TrainConfig
    """With everything decided that was left open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    """What a run changes as it goes on: all of it is in a checkpoint."""

    config: TrainConfig
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    weights: Tensor
    """[objectives]"""
    loaders: tuple[StreamingLoader, ...]
    """One a micro-step"""
    stages: list[dict[str, Any]]


def train(
    config: TrainConfig,
    on_step: Callable[[Record], None] = lambda _record: None,
    on_note: Callable[[str], None] = lambda _note: None,
) -> Result:
    """Train to step `config.steps` and leave log and checkpoints in `config.out`.

    Args:
        on_step: is called with each step's record, on rank 0.
        on_note: is called with what a resumed run goes on from, on rank 0.

    Raises:
        ConfigError: where settings and dataset do not fit.
        OutputError: where a run is in `out` and `resume` was not asked for, or the disk refuses.
        ResumeError: where a resumed run has other settings or another dataset.
        IntegrityError: where the dataset or the checkpoint is damaged.
    """
    dataset = Dataset.open(config.data, base=config.bases)
    facts = read_facts(dataset)
    with ExitStack() as stack:
        rank, world_size = stack.enter_context(joined_ranks())
        config = settle(config, facts)
        stack.enter_context(repeatable(config))
        trainee = build(config, facts, dataset, rank, world_size)
        for loader in trainee.loaders:
            stack.callback(loader.close)
        if rank == 0:
            stack.enter_context(locked(config.out))
            open_run(config, facts, world_size=world_size)
        wait_for_all()

        saved = load_checkpoint(config.out / "checkpoints") if config.resume else None
        done, loss, note = (
            restore(trainee, saved) if saved else (0, float("nan"), "no checkpoint is there, it begins anew")
        )
        streams = [endless(loader) for loader in trainee.loaders]
        if rank > 0:
            for step in range(done + 1, config.steps + 1):
                loss = take_step(trainee, streams, step)["loss"]
        else:
            if config.resume:
                on_note(f"{config.out}: {note}")
            log = stack.enter_context(Log(config.out / "log.jsonl", step=done))
            for step in range(done + 1, config.steps + 1):
                record = take_step(trainee, streams, step)
                loss = record["loss"]
                log.append({**record, "resumed": note} if config.resume and step == done + 1 else record)
                if step % config.checkpoint_every == 0 or step == config.steps:
                    content = content_of(trainee, step, loss)
                    save_checkpoint(config.out / "checkpoints", step, content, keep_last=config.keep_last)
                on_step(record)
        return Result(
            rank=rank,
            step=max(config.steps, done),
            loss=loss,
            weights_digest=weights_digest(trainee.model),
            model=trainee.model,
            config=config,
        )


def build(config: TrainConfig, facts: Facts, dataset: Dataset, rank: int, world_size: int) -> Trainee:
    """Everything at its start. A micro-step is to the loader what a rank is: one of the shares of a step."""
    model = build_model(config, facts)
    return Trainee(
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


def take_step(trainee: Trainee, streams: list[Iterator[Batch]], step: int) -> Record:
    """One update from the next global batch; its record."""
    model, config = trainee.model, trainee.config
    began = time.perf_counter()
    batches = [next(stream) for stream in streams]
    waited = time.perf_counter() - began

    denominators = batches[0].denominators
    sums = torch.zeros(NUM_OBJECTIVES, dtype=torch.float64)
    counts = torch.zeros(len(COUNTS), dtype=torch.int64)
    for batch in batches:
        part = numerators(model.losses(batch), batch.objective_ids[0])
        if part.requires_grad:  # not so where the language model is frozen and the batch has no image
            combine(part, denominators, trainee.weights).backward()  # type: ignore[no-untyped-call]
        sums += part.detach()
        counts += count(batch)

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = []
    for parameter in trained:
        # A rank without an image takes part in the sums too, and every update touches the same parameters.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients.append(parameter.grad)
    sum_over_ranks([sums, counts, *gradients])
    norm = nn.utils.clip_grad_norm_(trained, config.clip)
    for group in trainee.optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    trainee.optimizer.step()
    trainee.optimizer.zero_grad(set_to_none=True)

    seconds = time.perf_counter() - began
    return {
        "step": step,
        "loss": float(combine(sums, denominators, trainee.weights)),
        "loss_by_objective": by_name(sums, denominators),
        **dict(zip(COUNTS, counts.tolist(), strict=True)),
        "grad_norm": float(norm),
        "lr": learning_rate(config, step),
        "seconds": round(seconds, 6),
        "data_wait_share": round(waited / seconds, 4),
        "batch_id": batches[0].batch_id,
    }


def endless(loader: StreamingLoader) -> Iterator[Batch]:
    """Epoch after epoch.

    Raises:
        ConfigError: where an epoch has no batch.
    """
    while True:
        num_batches = 0
        for batch in loader:
            num_batches += 1
            yield batch
        if not num_batches:
            raise ConfigError(
                "an epoch has fewer packs than a global batch", hint="lower --global-batch, or lower --max-tokens"
            )


def count(batch: Batch) -> Tensor:
    """The batch in units of COUNTS."""
    return torch.tensor(
        [
            len(batch.example_ids),
            len(batch.image_slots),
            int(batch.image_sizes.long().prod(1).sum()),
            batch.input_ids.numel(),
            int((batch.shift_labels != -100).sum()),
        ]
    )


def learning_rate(config: TrainConfig, step: int) -> float:
    """Rises to `lr` in `warmup` steps and stays, so that a run can be given more steps later."""
    return config.lr * min(1.0, step / max(config.warmup, 1))
