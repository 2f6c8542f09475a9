"""A run, top to bottom.

    open the dataset   ->   settle what is open   ->   model, optimizer, loader: new, or from the checkpoint
    step: batches of the micro-steps -> losses -> numerators -> loss -> gradients -> sums over ranks -> update -> log
    every few steps and at the end: a checkpoint

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

from shardkit.loader import StreamingLoader
from shardkit.loader.device import Batch
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import build_model, build_optimizer, repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import read_facts
from shardkit.trainer.metrics import Log
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import NUM_OBJECTIVES, by_name, combine, numerators, objective_weights
from shardkit.trainer.ranks import joined_ranks, sum_over_ranks, wait_for_all
from shardkit.trainer.run import locked, open_run, refuse_changes, settle, stage_record

Record = dict[str, Any]
"""One step, as it stands in the log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    step: int
    loss: float
    """Of the last step."""
    weights_digest: str
    """xxh3-128 over all parameters in the order of their names."""
    resumed_from: int
    """The step that the run went on from; 0 where it began."""
    promise: str | None
    """What the loader says of the stream it goes on with."""
    model: VisionLanguage
    config: TrainConfig
    """With everything decided that was left open."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trainee:
    model: VisionLanguage
    optimizer: torch.optim.Optimizer
    weights: Tensor
    """[objectives]"""
    config: TrainConfig


def train(config: TrainConfig, on_step: Callable[[Record], None] = lambda _record: None) -> Result:
    """Train to step `config.steps` and leave log and checkpoints in `config.out`.

    Args:
        on_step: is called with each step's record, on every rank.

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
        weights = objective_weights(facts.objectives, config.objective_weights)
        stack.enter_context(repeatable(config))
        if rank == 0:
            stack.enter_context(locked(config.out))
            open_run(config, facts, world_size=world_size)
        wait_for_all()

        model = build_model(config, facts)
        optimizer = build_optimizer(model, config)
        loaders = [
            stack.enter_context(
                StreamingLoader(
                    dataset,
                    split=facts.split,
                    seed=config.seed,
                    max_tokens=config.max_tokens,
                    global_batch=config.global_batch,
                    rank=rank * config.micro_steps + part,
                    world_size=world_size * config.micro_steps,
                )
            )
            for part in range(config.micro_steps)
        ]
        saved = load_checkpoint(config.out / "checkpoints") if config.resume else None
        stages = stage_record(config, facts)
        first, loss, promise = 1, float("nan"), None
        if saved is not None:
            refuse_changes(saved["stages"][-1], stages[-1], where=config.out)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            torch.set_rng_state(saved["rng"])
            for loader in loaders:
                promise = loader.load_state_dict(saved["loader"])
            first, loss = saved["step"] + 1, saved["loss"]
        log = stack.enter_context(Log(config.out / "log.jsonl", step=first - 1)) if rank == 0 else None
        streams = [iter(loader) for loader in loaders]
        trainee = Trainee(model=model, optimizer=optimizer, weights=weights, config=config)

        for step in range(first, config.steps + 1):
            record = take_step(trainee, streams, step)
            loss = record["loss"]
            if log is not None:
                log.append(record)
                if step % config.checkpoint_every == 0 or step == config.steps:
                    content = {
                        "step": step,
                        "loss": loss,
                        "model": model.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "scheduler": {"kind": "warm-up, then constant", "step": step},
                        "rng": torch.get_rng_state(),
                        "stages": stages,
                        "loader": loaders[0].state_dict(),
                    }
                    save_checkpoint(config.out / "checkpoints", step, content, keep_last=config.keep_last)
            on_step(record)
    return Result(
        step=max(config.steps, first - 1),
        loss=loss,
        weights_digest=weights_digest(model),
        resumed_from=first - 1,
        promise=promise,
        model=model,
        config=config,
    )


def take_step(trainee: Trainee, streams: list[Iterator[Batch]], step: int) -> Record:
    """One update from the next global batch, of which each stream gives a micro-step; its record."""
    model, optimizer, weights, config = trainee.model, trainee.optimizer, trainee.weights, trainee.config
    began = time.perf_counter()
    batches = [next(stream) for stream in streams]
    waited = time.perf_counter() - began
    sums = torch.zeros(NUM_OBJECTIVES, dtype=torch.float64)
    counts = torch.zeros(len(COUNTS), dtype=torch.int64)
    for batch in batches:
        part = numerators(model.losses(batch), batch.objective_ids[0])
        combine(part, batch.denominators, weights).backward()  # type: ignore[no-untyped-call]
        sums += part.detach()
        counts += count(batch)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        # A rank without an image still takes part in the sums, and every update touches the same parameters.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    sum_over_ranks([sums, counts, *(parameter.grad for parameter in trained if parameter.grad is not None)])
    norm = nn.utils.clip_grad_norm_(trained, config.clip)
    lr = config.lr * min(1.0, step / max(config.warmup, 1))
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    denominators = batches[0].denominators
    seconds = time.perf_counter() - began
    return {
        "step": step,
        "loss": float(combine(sums, denominators, weights)),
        "loss_by_objective": by_name(sums, denominators),
        **dict(zip(COUNTS, counts.tolist(), strict=True)),
        "grad_norm": float(norm),
        "lr": lr,
        "seconds": round(seconds, 6),
        "data_wait_share": round(waited / seconds, 4),
        "batch_id": batches[0].batch_id,
    }


COUNTS = ("sequences", "images", "pixels", "tokens", "supervised_tokens")


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
