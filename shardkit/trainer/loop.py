"""A run, top to bottom.

    open the dataset  ->  settle what was left open  ->  trainee: new, or as its checkpoint has it
    each step:  batches -> losses -> numerators -> loss -> gradients -> sums over ranks -> update -> log
    every few steps, and at the end:  a checkpoint

On a CPU the weights after a step depend on dataset, settings and step only: a run that was killed anywhere and goes on
with `resume` ends with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.loader.device import Batch
from shardkit.sequence.cost import cost
from shardkit.store.dataset import Dataset
from shardkit.trainer.build import repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.facts import read_facts
from shardkit.trainer.held_out import HeldOut, check_split
from shardkit.trainer.metrics import Log
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.norms import ObjectiveNorms, by_part
from shardkit.trainer.objective import by_name, combine
from shardkit.trainer.ranks import joined_ranks, sum_over_ranks, wait_for_all
from shardkit.trainer.run import locked, open_run, settle
from shardkit.trainer.trainee import Trainee, begin, content_of, open_loaders, restore, too_few_packs

COUNTS = ("sequences", "images", "pixels", "tokens", "image_tokens", "supervised_tokens", "cost", "room")
"""What the log counts of a step, over all ranks: `cost` as shardkit.sequence.cost has it, `room` is what packs could hold."""
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
        held_out = None
        if config.eval_every:
            check_split(dataset, config)
            held_out = HeldOut(dataset, config, rank=rank, world_size=world_size)
            stack.callback(held_out.close)
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
            if held_out and step % config.eval_every == 0:
                record["eval"] = held_out(trainee.model, trainee.task)
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
    model, config, task, clock = trainee.model, trainee.config, trainee.task, trainee.clock
    clock.start()
    with clock.part("data"):
        batches = [next(stream) for stream in streams]

    denominators = task.denominators(batches[0])
    sums = torch.zeros(len(task.names), dtype=torch.float64)
    counts = torch.zeros(len(COUNTS), dtype=torch.int64)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    every = config.objective_norms_every
    norms = ObjectiveNorms(names=task.names, parameters=trained) if every and step % every == 0 else None
    for batch in batches:
        with clock.part("forward"):
            part = task.sums(model, batch)
        with clock.part("backward"):
            if part.requires_grad:  # not so where the language model is frozen and the batch has no image
                if norms:
                    norms.add(part, denominators)
                combine(part, denominators, task.weights).backward()  # type: ignore[no-untyped-call]  # torch has no types there
        sums += part.detach()
        counts += count(batch)

    for parameter in trained:
        # A rank without an image takes part in the sums too, and every update touches the same parameters.
        parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    with clock.part("communication"):
        sum_over_ranks([sums, counts, *(parameter.grad for parameter in trained if parameter.grad is not None)])
    loss = float(combine(sums, denominators, task.weights))
    pulls = by_part(model)
    with clock.part("update"):
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

    counted = dict(zip(COUNTS, counts.tolist(), strict=True))
    timed = clock.stop()
    seconds = float(str(timed["seconds"]))
    return {
        "step": step,
        "loss": loss,
        "loss_by_objective": by_name(task.names, sums, denominators),
        **counted,
        "padding": round(1 - counted["tokens"] / counted["room"], 6) if counted["room"] else 0.0,
        "per_second": {name: round(counted[name] / seconds, 1) for name in COUNTS if name != "room"},
        "grad_norm": norm,
        "grad_norm_by_part": pulls,
        **({"grad_norm_by_objective": norms.found(denominators)} if norms else {}),
        "lr": learning_rate(config, step),
        **timed,
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
    lengths_D = torch.diff(batch.cu_seq_lens_q).long()
    pixels = batch.image_sizes.long().prod(1).sum()
    patches = batch.image_grid_thw.long().prod(1).sum()
    return torch.tensor(
        [
            len(batch.example_ids),
            len(batch.image_slots),
            int(pixels),
            batch.input_ids.numel(),
            int(batch.image_slots.sum()),
            int((batch.shift_labels != -100).sum()),
            int(cost(lengths_D, 0).sum() + cost(0, patches)),
            batch.info.figures.capacity if batch.info and batch.info.figures else batch.input_ids.numel(),
        ]
    )


def learning_rate(config: TrainConfig, step: int) -> float:
    """Rises to `lr` in `warmup` steps and stays, so that a run can be given more steps later."""
    return config.lr * min(1.0, step / max(config.warmup, 1))
