"""Prompts one by one, for a sampler outside: in the plan's order, epoch after epoch, from any place on.

A place is (epoch, step) of a plan of one prompt a step: a function of dataset, split and seed. Whoever stores the place of the
last prompt that was answered goes on behind it, exactly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import orjson

from shardkit.errors import ConfigError
from shardkit.loader.choices import Rank
from shardkit.loader.reader import Reader, check_files
from shardkit.sequence.plan import Plan, PlanSettings
from shardkit.sequence.plan.source import choose_split, identity, read_lengths
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset


def prompts(
    dataset: Dataset | str | os.PathLike[str],
    *,
    split: str | None = None,
    seed: int = 0,
    epochs: int | None = 1,
    after: tuple[int, int] | None = None,
    rank: int = 0,
    world_size: int = 1,
    verify: Verify = "read",
) -> Iterator[dict[str, Any]]:
    """The prompts of a dataset of the recipe rlaif or agent.

    Args:
        split: `train` where the dataset is split, everything where it never was.
        epochs: where the last one ends; None goes on for ever.
        after: (epoch, step) of the last prompt that is done.
        rank: takes every `world_size`-th step; the order is that of one process, whatever the number of samplers.

    Yields:
        epoch, step, example_id, source, input_ids, and what the recipe stored: text, messages, tools, gt, ...

    Raises:
        ConfigError: where the dataset holds no prompts, or the place is behind the end of its epoch.
        IntegrityError: where a shard is damaged.
    """
    opened = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset)
    share = Rank(rank=rank, world_size=world_size)
    chosen = choose_split(opened, split)
    check_files(opened, chosen)
    plan = Plan(
        read_lengths(opened, chosen),
        PlanSettings(max_tokens=opened.recipe["max_tokens"], seed=seed, packer="none"),
        identity=identity(opened, chosen),
    )
    reader = Reader(opened, verify=verify)
    epoch, step = (0, 0) if after is None else (after[0], after[1] + 1)
    try:
        while epochs is None or epoch < epochs:
            num_steps = plan.num_steps(epoch)
            if step > num_steps:
                raise ConfigError(
                    f"epoch {epoch} has {num_steps} prompts, place {epoch}/{step - 1} is behind them",
                    hint=f"give the place of the last prompt that is done: {epoch}/0 to {epoch}/{num_steps - 1}",
                )
            if step < num_steps:
                yield from _epoch(plan, reader, opened, (epoch, step), share)
            elif not num_steps:
                return
            epoch, step = epoch + 1, 0
    finally:
        reader.close()


def _epoch(
    plan: Plan, reader: Reader, dataset: Dataset, place: tuple[int, int], share: Rank
) -> Iterator[dict[str, Any]]:
    """What a sampler takes of an epoch, from a place on."""
    lengths = plan.lengths
    for step in plan.steps(plan.place(*place)):
        if step.epoch != place[0]:
            return
        if step.step % share.world_size != share.rank:
            continue
        for index in (index for pack in step.packs for index in pack):
            loaded = reader.sequence(int(lengths.shard[index]), int(lengths.row[index]))
            if loaded.sequence.prompt is None:
                raise ConfigError(
                    "the dataset holds no prompts", where=dataset.where, hint="tokenize it with --recipe rlaif or agent"
                )
            yield {
                "epoch": step.epoch,
                "step": step.step,
                "example_id": loaded.example_id,
                "source": loaded.source,
                "input_ids": loaded.sequence.input_ids.tolist(),
                **orjson.loads(loaded.sequence.prompt),
            }
