"""Values that stand on two sides of a split, counted and with evidence; pure arrays but for the naming."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.prepare.audit.sides import KINDS, Indices, Side
from shardkit.prepare.dedup.keys import Keys, dense, group_starts
from shardkit.store.shard import ShardRef

ROWS_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Found:
    """M occurrences of values of one kind that leak, value by value."""

    values: Keys
    """[M, 2]"""
    shards: Indices
    """[M] place among the shards of examples, those of sequences after them."""
    rows: Indices

    def starts(self) -> Indices:
        return _starts(self.values)

    @property
    def num_values(self) -> int:
        return len(self.starts())

    def take(self, chosen: npt.NDArray[np.bool_]) -> Found:
        return Found(values=self.values[chosen], shards=self.shards[chosen], rows=self.rows[chosen])


def of_kind(sides: Sequence[Side], kind: str) -> Found:
    """All occurrences of the values of a kind, value by value."""
    number = KINDS.index(kind)
    empty = (np.empty((0, 2), np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))
    parts = [
        (side.values[own], np.full(int(own.sum()), side.shard), side.rows[own].astype(np.int64))
        for side in sides
        for own in [side.kinds == number]
    ]
    values, shards, rows = (np.concatenate(column) for column in zip(empty, *parts, strict=True))
    order = np.lexsort((rows, shards, values[:, 1], values[:, 0]))
    return Found(values=values[order], shards=shards[order], rows=rows[order])


def on_two_sides(found: Found, side_of: Indices) -> Found:
    """Occurrences of the values that stand in shards of different sides.

    Args:
        side_of: [number of shards] which side each shard is on.
    """
    starts = found.starts()
    if not len(starts):
        return found
    at = side_of[found.shards]
    apart = np.minimum.reduceat(at, starts) != np.maximum.reduceat(at, starts)
    return found.take(np.repeat(apart, np.diff(np.append(starts, len(found.values)))))


def among(values: Keys, wanted: Keys) -> npt.NDArray[np.bool_]:
    """[M] whether each of `values` ([M, 2]) is one of `wanted` ([P, 2])."""
    found = np.isin(values[:, 0], wanted[:, 0])
    # Nearly always the first word decides.
    maybe = np.flatnonzero(found)
    numbers = dense(np.concatenate([values[maybe], wanted]))
    found[maybe] = np.isin(numbers[: len(maybe)], numbers[len(maybe) :])
    return found


def _starts(values: Keys) -> Indices:
    if len(values) == 0:
        return np.empty(0, np.int64)
    return np.union1d(group_starts(values[:, 0]), group_starts(values[:, 1]))


def evidence(
    refs: Sequence[ShardRef], kind: str, found: Found, name: Callable[[int], str], *, listed: int
) -> list[dict[str, Any]]:
    """The first leaks of a kind: the value, and for each side how many rows have it and which are the first.

    Args:
        refs: the shards that `found` numbers.
        name: place in `found` -> its value in words.
    """
    borders = [*found.starts().tolist(), len(found.values)]
    return [
        {
            "kind": kind,
            "value": name(begin),
            "sides": by_side(refs, zip(found.shards[begin:end].tolist(), found.rows[begin:end].tolist(), strict=True)),
        }
        for begin, end in list(pairwise(borders))[:listed]
    ]


def by_side(refs: Sequence[ShardRef], places: Iterable[tuple[int, int]]) -> dict[str, dict[str, Any]]:
    """Split -> how many of the rows it has, and the first of them. A sequence counts as a row.

    Args:
        places: (shard, row).
    """
    sides: dict[str, dict[str, Any]] = {}
    for shard, row in places:
        side = sides.setdefault(refs[shard].split, {"examples": 0, "rows": []})
        side["examples"] += 1
        if len(side["rows"]) < ROWS_SHOWN:
            side["rows"].append(f"{refs[shard].name}:{row}")
    return dict(sorted(sides.items()))
