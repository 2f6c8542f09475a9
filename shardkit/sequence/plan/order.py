"""The order in which the sequences of a source are drawn, pass after pass.

    shards in a permuted order  ->  windows of some shards  ->  the rows of a window, shuffled

A window is what is read at a time: wider mixes better, narrower reads more locally. Nothing is kept between calls
but the last two passes and windows, so any place of any pass is reached at the price of sorting one window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixer import permutation

VERSION = 1
"""Of the rule that gives the order; part of every plan."""

_KEPT = 2
"""Passes, and windows."""

NEVER = 1 << 62
"""A pass that no run reaches."""

Indices = npt.NDArray[np.int64]


def next_turn(lengths: Lengths, rows: Indices, passes: Indices) -> Indices:
    """For each of `rows` the first pass from `passes` on that has it."""
    if lengths.period is None or lengths.turn is None:
        return passes
    wait: Indices = (lengths.turn[rows] - passes) % lengths.period[rows]
    return passes + wait


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Pass:
    number: int
    rows: Indices
    """Ascending."""
    starts: Indices
    """Of each shard, among `rows`; likewise `stops`."""
    stops: Indices
    shards: Indices
    """Places in the three above, in the order of the pass."""
    window_stops: Indices
    """Draws at the end of each window."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Upcoming:
    """The next draws, over the ends of passes."""

    indices: Indices
    passes: Indices
    """The pass of each."""
    ends: Indices
    """Draws after which a pass is over; the last ones of all where there are no more for good."""
    place: tuple[int, int]
    """(pass, draws of it) before them."""
    following: Indices
    """The pass that follows each end: the next one that has anything."""

    def after(self, drawn: int) -> tuple[int, int]:
        """(pass, draws of it) after `drawn` of them."""
        if not drawn:
            return self.place
        ended = int(np.searchsorted(self.ends, drawn, side="right"))
        if ended and self.ends[ended - 1] == drawn:
            return int(self.following[ended - 1]), 0
        return int(self.passes[drawn - 1]), drawn - int(self.ends[ended - 1]) if ended else self.place[1] + drawn


class Order:
    """The passes over some rows of `lengths`.

    Args:
        rows: indices into `lengths`, ascending.
        window: shards whose rows are shuffled together.
        due: [N] the first pass that has each sequence again, where some were delivered under another plan.
        shift: [N] how many passes the source of each sequence is ahead of those counted here.
    """

    def __init__(
        self,
        lengths: Lengths,
        rows: Indices,
        *,
        seed: int,
        window: int,
        due: Indices | None = None,
        shift: Indices | None = None,
    ) -> None:
        self._lengths = lengths
        self._rows = rows
        self._seed = seed
        self._window = window
        self._shift = np.zeros(len(rows), np.int64) if shift is None else shift[rows]
        due = np.zeros(len(rows), np.int64) if due is None else due[rows] - self._shift
        self._due = due
        self._late = int(due.max(initial=0))
        """From this pass on nothing is left out."""
        self._whole: tuple[Indices, ...] | None = None
        self._passes: dict[int, _Pass] = {}
        self._windows: dict[tuple[int, int], Indices] = {}

    def __len__(self) -> int:
        """Rows of all passes together."""
        return len(self._rows)

    def size(self, number: int) -> int:
        """Draws of a pass."""
        return len(self._open(number).rows)

    def take(self, number: int, start: int, stop: int) -> Indices:
        """Draws `start` to `stop` of pass `number`, as indices into the lengths; fewer where the pass ends before."""
        opened = self._open(number)
        stop = min(stop, len(opened.rows))
        if start >= stop:
            return np.zeros(0, np.int64)
        first = int(np.searchsorted(opened.window_stops, start, side="right"))
        last = int(np.searchsorted(opened.window_stops, stop, side="left"))
        before = int(opened.window_stops[first - 1]) if first else 0
        drawn = np.concatenate([self._rows_of_window(opened, window) for window in range(first, last + 1)])
        return drawn[start - before : stop - before]

    def upcoming(self, number: int, start: int, count: int, *, limit: int = NEVER) -> Upcoming:
        """The next `count` draws from draw `start` of pass `number` on; fewer where pass `limit`, the first that is not
        drawn any more, is reached before."""
        place, found = (number, start), 0
        parts, passes, ends, following = [as_indices([])], [as_indices([])], [], []
        while found < count and number < limit:
            part = self.take(number, start, start + count - found)
            parts.append(part)
            passes.append(np.full(len(part), number, np.int64))
            found += len(part)
            if start + len(part) >= self.size(number):
                number, start = self._next_pass(number + 1, limit), 0
                if found:
                    ends.append(found)
                    following.append(number)
        return Upcoming(
            indices=np.concatenate(parts),
            passes=np.concatenate(passes),
            ends=as_indices(ends),
            place=place,
            following=as_indices(following),
        )

    def _next_pass(self, number: int, limit: int) -> int:
        """The first pass from `number` on that has anything."""
        while number < limit and not self.size(number):
            number += 1
        return number

    def _open(self, number: int) -> _Pass:
        known = self._passes.get(number)
        if known is not None:
            return known
        rows, starts, stops, numbers = self._rows_of_pass(number)
        shards = permutation(mix64(self._seed, number, "shards"), numbers.astype(np.uint64))
        sizes = (stops - starts)[shards]
        ends = np.arange(self._window, len(sizes) + self._window, self._window).clip(max=len(sizes))
        window_stops = np.cumsum(sizes)[ends - 1] if len(sizes) else np.zeros(0, np.int64)
        opened = _Pass(number=number, rows=rows, starts=starts, stops=stops, shards=shards, window_stops=window_stops)
        self._passes[number] = opened
        while len(self._passes) > _KEPT:
            del self._passes[next(iter(self._passes))]
        return opened

    def _rows_of_pass(self, number: int) -> tuple[Indices, ...]:
        """Rows, where the rows of each shard start and stop, and the numbers of these shards."""
        takes_turns = self._lengths.turn is not None
        if number >= self._late and not takes_turns:
            if self._whole is None:
                self._whole = (self._rows, *self._by_shard(self._rows))
            return self._whole
        there = self._due <= number
        if takes_turns:
            passes = number + self._shift
            there &= next_turn(self._lengths, self._rows, passes) == passes
        rows = self._rows[there]
        return (rows, *self._by_shard(rows))

    def _by_shard(self, rows: Indices) -> tuple[Indices, Indices, Indices]:
        shards = self._lengths.shard[rows].astype(np.int64)
        starts = np.flatnonzero(np.diff(shards, prepend=-1))
        return starts, np.append(starts[1:], len(rows)), shards[starts]

    def _rows_of_window(self, opened: _Pass, window: int) -> Indices:
        known = self._windows.get((opened.number, window))
        if known is not None:
            return known
        shards = opened.shards[window * self._window : (window + 1) * self._window]
        rows = np.concatenate([opened.rows[opened.starts[shard] : opened.stops[shard]] for shard in shards])
        # Ascending first: rows of equal keys then stand in one order, wherever their shards were put.
        rows = np.sort(rows)
        rows = rows[permutation(mix64(self._seed, opened.number, "rows"), self._lengths.key[rows])]
        self._windows[opened.number, window] = rows
        while len(self._windows) > _KEPT:
            del self._windows[next(iter(self._windows))]
        return rows


def as_indices(values: Any) -> Indices:
    """`values` as the type of indices."""
    return np.asarray(values, np.int64)
