"""Values that stand on two sides of a split, counted and with evidence; pure arrays but for the naming."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.prepare.audit.sides import KINDS, Job, Side, groups_of, value_bits
from shardkit.prepare.dedup.facts import read_facts
from shardkit.prepare.dedup.keys import Keys, group_starts, hex_id
from shardkit.prepare.dedup.report import excerpt
from shardkit.store.dataset import Dataset
from shardkit.store.whole import open_whole

LISTED = 20
"""Leaks of each kind that are shown with their rows."""
_ROWS_SHOWN = 3

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Found:
    """M occurrences of values of one kind that leak, value by value."""

    values: Keys
    """[M, 2]"""
    shards: Indices
    rows: Indices

    def starts(self) -> Indices:
        return _starts(self.values)

    @property
    def num_values(self) -> int:
        return len(self.starts())


def on_two_sides(sides: Sequence[Side], kind: str, side_of: Indices) -> Found:
    """Occurrences of the values of a kind that stand in shards of different sides.

    Args:
        side_of: [number of shards] which side each shard is on.
    """
    number = KINDS.index(kind)
    empty = (np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    parts = [
        (side.values[own], np.full(int(own.sum()), side.shard), side.rows[own].astype(np.int64))
        for side in sides
        for own in [side.kinds == number]
    ]
    values, shards, rows = (np.concatenate(column) for column in zip(empty, *parts, strict=True))
    order = np.lexsort((rows, shards, values[:, 1], values[:, 0]))
    values, shards, rows = values[order], shards[order], rows[order]
    starts = _starts(values)
    if len(starts):
        at = side_of[shards]
        apart = np.minimum.reduceat(at, starts) != np.maximum.reduceat(at, starts)
        keep = np.repeat(apart, np.diff(np.append(starts, len(values))))
        values, shards, rows = values[keep], shards[keep], rows[keep]
    return Found(values=values, shards=shards, rows=rows)


def without(found: Found, permitted: Keys) -> Found:
    """Drop the values of `permitted` ([P, 2])."""
    allowed = {tuple(pair) for pair in permitted.tolist()}
    keep = np.array([tuple(pair) not in allowed for pair in found.values.tolist()], np.bool_)
    return Found(values=found.values[keep], shards=found.shards[keep], rows=found.rows[keep])


def _starts(values: Keys) -> Indices:
    if len(values) == 0:
        return np.empty(0, np.int64)
    return np.union1d(group_starts(values[:, 0]), group_starts(values[:, 1]))


def evidence(dataset: Dataset, jobs: Mapping[int, Job], kind: str, found: Found) -> list[dict[str, Any]]:
    """The first leaks of a kind: the value, and for each side how many rows have it and which are the first.

    Args:
        jobs: what was examined of each shard.
    """
    starts = found.starts()
    listed = []
    for begin, end in list(pairwise([*starts.tolist(), len(found.values)]))[:LISTED]:
        sides: dict[str, dict[str, Any]] = {}
        for shard, row in zip(found.shards[begin:end].tolist(), found.rows[begin:end].tolist(), strict=True):
            ref = dataset.shards[shard]
            side = sides.setdefault(ref.split, {"examples": 0, "rows": []})
            side["examples"] += 1
            if len(side["rows"]) < _ROWS_SHOWN:
                side["rows"].append(f"{ref.name}:{row}")
        value = _named(dataset, jobs[int(found.shards[begin])], kind, found, begin)
        listed.append({"kind": kind, "value": value, "sides": dict(sorted(sides.items()))})
    return listed


def _named(dataset: Dataset, job: Job, kind: str, found: Found, index: int) -> str:
    """The value in words: ids as they are, texts and groups read from a row that has them."""
    if kind in ("pixel", "parent"):
        return hex_id(found.values[index])
    row = int(found.rows[index])
    reader = open_whole(dataset.shards[job.shard])
    facts = next(iter(read_facts(reader, np.array([row], np.int32))))
    reader.close()
    candidates = {
        "asset": facts.assets,
        "text": (facts.text,),
        "group": groups_of(job.group_by, facts, job.place_of().get(row, {})),
    }[kind]
    wanted = tuple(found.values[index].tolist())
    return excerpt(next(value for value in candidates if value_bits(kind, value) == wanted))
