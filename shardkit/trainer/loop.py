"""A run, top to bottom.

    open the dataset  ->  settle what was left open  ->  trainee: new, or as its checkpoint has it
    each step:  batches -> losses -> numerators -> loss -> gradients -> sums over ranks -> update -> log
    every few steps, and at the end:  a checkpoint

On a CPU the weights after a step depend on dataset, settings and step only: a run that was killed anywhere and goes on
with `resume` ends with the same bits.
"""

from __future__ import annotations

import math
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
from shardkit.trainer.build import repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import read_facts
from shardkit.trainer.metrics import Log
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import by_name, combine
from shardkit.trainer.ranks import joined_ranks, sum_over_ranks, wait_for_all
from shardkit.trainer.run import locked, open_run, settle
from shardkit.trainer.trainee import Trainee, begin, content_of, open_loaders, restore, too_few_packs

COUNTS = ("sequences", "images", "pixels", "tokens", "supervised_tokens")
"""What the log counts of a step, over all ranks."""
NOTHING_THERE = "no checkpoint is there, it begins anew"
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
        loaders = open_loaders(config, facts, dataset, rank, world_size)
        for loader in loaders:
            stack.callback(loader.close)
        if rank == 0:
            stack.enter_context(locked(config.out))
            open_run(config, facts, world_size=world_size)
        wait_for_all()

        saved = load_checkpoint(config.out / "checkpoints") if config.resume else None
        trainee = begin(config, facts, dataset, loaders, rank=rank, saved=saved)
        done, loss, note = restore(trainee, saved) if saved else (0, float("nan"), NOTHING_THERE)
        log = stack.enter_context(Log(config.out / "log.jsonl", step=done)) if rank == 0 else None
        if config.resume and rank == 0:
            on_note(f"{config.out}: {note}")
        streams = [endless(loader) for loader in trainee.loaders]

        for step in range(done + 1, config.steps + 1):
            record = take_step(trainee, streams, step)
            loss = record["loss"]
            if log is None:
                continue
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


def take_step(trainee: Trainee, streams: list[Iterator[Batch]], step: int) -> Record:
    """One update from the next global batch; its record.

    Raises:
        ConfigError: where loss or gradient are no numbers any more; nothing is updated then.
    """
    model, config = trainee.model, trainee.config
    began = time.perf_counter()
    batches = [next(stream) for stream in streams]
    waited = time.perf_counter() - began

    task = trainee.task
    denominators = task.denominators(batches[0])
    sums = torch.zeros(len(task.names), dtype=torch.float64)
    counts = torch.zeros(len(COUNTS), dtype=torch.int64)
    for batch in batches:
        part = task.sums(model, batch)
        if part.requires_grad:  # not so where the language model is frozen and the batch has no image
            combine(part, denominators, task.weights).backward()  # type: ignore[no-untyped-call]  # torch has no types there
        sums += part.detach()
        counts += count(batch)

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = []
    for parameter in trained:
        # A rank without an image takes part in the sums too, and every update touches the same parameters.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        gradients.append(parameter.grad)
    sum_over_ranks([sums, counts, *gradients])
    loss = float(combine(sums, denominators, task.weights))
    norm = float(nn.utils.clip_grad_norm_(trained, config.clip))
    if not math.isfinite(loss + norm):
        raise ConfigError(
            f"the loss is {loss} and its gradient has the norm {norm}",
            where=f"step {step}, batch {batches[0].batch_id}",
            hint="lower --lr in a new --out; the last checkpoint is from before this step",
        )
    for group in trainee.optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    trainee.optimizer.step()
    trainee.optimizer.zero_grad(set_to_none=True)

    seconds = time.perf_counter() - began
    return {
        "step": step,
        "loss": loss,
        "loss_by_objective": by_name(task.names, sums, denominators),
        **dict(zip(COUNTS, counts.tolist(), strict=True)),
        "grad_norm": norm,
        "lr": learning_rate(config, step),
        "seconds": round(seconds, 6),
        "data_wait_share": round(waited / seconds, 4),
        "batch_id": batches[0].batch_id,
    }


def endless(loader: StreamingLoader) -> Iterator[Batch]:
    """Epoch after epoch.

    Raises:
        ConfigError: where an epoch has no batch, though the first had one.
    """
    while True:
        num_batches = 0
        for batch in loader:
            num_batches += 1
            yield batch
        if not num_batches:
            raise too_few_packs()


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
