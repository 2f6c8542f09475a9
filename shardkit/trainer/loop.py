"""A run, top to bottom.

    open and check what each stage reads  ->  open the run's folder  ->  stage after stage
    each stage:  model and optimizer: new, or from the stage before, or as its checkpoint has them
    each step:   batches -> losses -> numerators -> loss -> gradients -> sums over ranks -> update -> log
    every few steps, and at the end of a stage:  a checkpoint

On a CPU the weights after a step depend on datasets, settings and step only: a run that was killed anywhere and goes on
with `resume` ends with the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.loader.device import Batch
from shardkit.store.files import output_is
from shardkit.trainer.board import open_board
from shardkit.trainer.build import repeatable, weights_digest
from shardkit.trainer.checkpoint import load_checkpoint, save_checkpoint
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.counts import COUNTS, count
from shardkit.trainer.inputs import initial_weights, open_inputs, remaining_stages, too_few_packs
from shardkit.trainer.metrics import Log
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.norms import ObjectiveNorms, grad_norm_by_part
from shardkit.trainer.objective import by_name, combine
from shardkit.trainer.ranks import failing_together, found_by_all, joined_ranks, sum_over_ranks
from shardkit.trainer.run import begin_run, check_run, locked
from shardkit.trainer.stages import Stage, one_stage
from shardkit.trainer.state import TrainState, begin_stage

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
    run: TrainConfig | Sequence[Stage],
    on_step: Callable[[Record], None] = lambda _record: None,
    on_note: Callable[[str], None] = lambda _note: None,
) -> Result:
    """Train to the last step of the run and leave log and checkpoints in its folder.

    Args:
        run: its stages, or the settings of a run that is one stage.
        on_step: is called with each step's record, on rank 0.
        on_note: is called with what a resumed run goes on from, on rank 0.

    Raises:
        ConfigError: where settings and dataset do not fit.
        OutputError: where a run is in `out` and `resume` was not asked for, or the disk refuses.
        ResumeError: where a stage that was begun has other settings or another dataset.
        IntegrityError: where a dataset or the checkpoint is damaged.
        AnotherRankFailed: where a lower rank raises one of these.
    """
    stages = one_stage(run) if isinstance(run, TrainConfig) else run
    with output_is("the run", "choose another --out"), ExitStack() as stack:
        rank, world_size = stack.enter_context(joined_ranks(stages[0].config.device))
        with failing_together():
            inputs = open_inputs(stages, rank, world_size, stack)
            initial = initial_weights(inputs[0])
            config = inputs[0].stage.config
            stack.enter_context(repeatable(config))
            opened = [each.stage for each in inputs], [each.facts for each in inputs]
            if rank == 0:
                stack.enter_context(locked(config.out))
                check_run(*opened)

        with failing_together():
            saved = load_checkpoint(config.out / "checkpoints", config.resume_from) if config.resume else None
            done, loss = (saved["step"], saved["loss"]) if saved else (0, float("nan"))
            remaining = remaining_stages(inputs, saved)
            log = None
            if rank == 0:
                board = stack.enter_context(open_board(config.tensorboard, step=done))
                begin_run(*opened, world_size=world_size)
                log = stack.enter_context(Log(config.out / "log.jsonl", step=done, board=board))
        first, note = done + 1, ""
        for each in remaining:
            with failing_together():
                state, promise = begin_stage(each, saved, initial=initial, rank=rank)
            if config.resume and rank == 0 and not note:
                note = promise
                on_note(f"{config.out}: {note}")
            streams = [endless(loader) for loader in each.loaders]

            for step in range(done + 1, state.stage.last + 1):
                record = take_step(state, streams, step)
                if each.held_out and step % config.eval_every == 0:
                    record["eval"] = each.held_out(state.model, state.task)
                loss = record["loss"]
                if log is None:
                    continue
                log.append({**record, "resumed": note} if note and step == first else record)
                if step % config.checkpoint_every == 0 or step == state.stage.last:
                    content = state.checkpoint(step, loss)
                    save_checkpoint(config.out / "checkpoints", step, content, keep_last=config.keep_last)
                on_step(record)

            done = max(done, state.stage.last)
            saved = state.checkpoint(done, loss)

        model, config = state.model, state.stage.config  # type: ignore[possibly-undefined]  # a run has a stage
        return Result(
            rank=rank,
            step=done,
            loss=loss,
            weights_digest=weights_digest(model),
            model=model,
            config=config,
        )


def take_step(state: TrainState, streams: Sequence[Iterator[Batch]], step: int) -> Record:
    """One update from the next global batch; its record.

    Raises:
        ConfigError: where loss or gradient are no numbers any more; nothing is updated then.
    """
    model, config, task, clock = state.model, state.stage.config, state.task, state.clock
    clock.start()
    with clock.part("data"):
        batches = [next(stream) for stream in streams]

    denominators = task.denominators(batches[0])
    learned = torch.where(task.weights > 0, denominators, 0.0)
    sums = torch.zeros(len(task.names), dtype=torch.float64)
    counts = torch.zeros(len(COUNTS), dtype=torch.int64)
    by_source = torch.zeros(len(state.shares.sources), dtype=torch.int64)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    every = config.objective_norms_every
    norms = ObjectiveNorms(names=task.names, parameters=trained) if every and step % every == 0 else None
    for batch in batches:
        if model.vision is not None:
            with clock.part("pack"):
                _ = batch.patches  # cut at the first look
        with clock.part("forward"):
            part = task.sums(model, batch)
        with clock.part("backward"):
            if norms:
                norms.add(partial(task.sums, model, batch), learned)
            if part.requires_grad:  # not so where the language model is frozen and the batch has no image
                combine(part, denominators, task.weights).backward()  # type: ignore[no-untyped-call]  # torch has no types there
        sums += part.detach().cpu()
        counts += count(batch, model)
        by_source += state.shares.count(batch)

    # A rank without an image takes part in the sums too, and every update touches the same parameters.
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
    with clock.part("communication"):
        sum_over_ranks([sums, counts, by_source, *gradients])
    for parameter, gradient in zip(trained, gradients, strict=True):
        parameter.grad = gradient
    loss = float(combine(sums, denominators, task.weights))
    by_part = grad_norm_by_part(model)
    with clock.part("update"):
        norm = float(nn.utils.clip_grad_norm_(trained, config.clip))
        if not math.isfinite(loss + norm):
            error = ConfigError(
                f"the loss is {loss}, the norm of the gradient {norm}: the run cannot go on",
                where=f"step {step}, batch {batches[0].batch_id}",
                hint="lower --lr in a new --out; the last checkpoint is from before this step",
            )
            raise found_by_all(error)
        state.set_rate(state.stage.learning_rate(step))
        state.optimizer.step()
        state.optimizer.zero_grad(set_to_none=True)

    counted = dict(zip(COUNTS, counts.tolist(), strict=True))
    timed = clock.stop()
    seconds = float(str(timed["seconds"]))
    return {
        "step": step,
        "stage": state.stage.name,
        "loss": loss,
        "loss_by_objective": by_name(task.names, sums, denominators),
        **counted,
        "padding": round(1 - counted["tokens"] / counted["room"], 6) if counted["room"] else 0.0,
        "shares": state.shares.add(by_source),
        "per_second": {name: round(counted[name] / seconds, 1) for name in COUNTS if name != "room"},
        "grad_norm": norm,
        "grad_norm_by_part": by_part,
        **({"grad_norm_by_objective": norms.found(learned)} if norms else {}),
        "lr": state.stage.learning_rate(step),
        "precision": config.precision,
        **timed,
        "batch_id": batches[0].batch_id,
    }


def endless(loader: StreamingLoader) -> Iterator[Batch]:
    """Epoch after epoch.

    Raises:
        ConfigError: where an epoch has no batch, though the first had one.
    """
    while True:
        has_batches = False
        for batch in loader:
            has_batches = True
            yield batch
        if not has_batches:
            raise too_few_packs()
