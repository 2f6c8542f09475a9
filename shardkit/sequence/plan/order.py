"""The order in which the sequences of a source are drawn, pass after pass.

    shards in a permuted order  ->  windows of some shards  ->  the rows of a window, shuffled

A window is what is read at a time: wider mixes better, narrower reads more locally. Nothing is kept between calls
but the last two windows, so any place of any pass is reached at the price of sorting one window.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.sequence.plan.lengths import Lengths

VERSION = 1
"""Of the rule that gives the order; part of every plan."""

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_KEPT_WINDOWS = 2

Indices = npt.NDArray[np.int64]


def mix64_array(start: int, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mix64(*parts, word)` for every word, where `start` is `mix64(*parts)`."""
    z = (np.uint64(start) ^ words) + _INCREMENT
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIER_1
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIER_2
    mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def permutation(start: int, words: npt.NDArray[np.uint64]) -> Indices:
    """The places of `words` by ascending mixed value; equal words keep their order."""
    return np.argsort(mix64_array(start, words), kind="stable").astype(np.int64)


class Order:
    """The passes over some rows of `lengths`.

    Args:
        rows: indices into `lengths`, ascending.
        window: shards whose rows are shuffled together.
    """

    def __init__(self, lengths: Lengths, rows: Indices, *, seed: int, window: int) -> None:
        self._keys = lengths.key
        self._rows = rows
        self._seed = seed
        self._window = window
        shards = lengths.shard[rows]
        self._starts = np.flatnonzero(np.diff(shards, prepend=-1))
        self._stops = np.append(self._starts[1:], len(rows))
        self._shards = shards[self._starts].astype(np.uint64)
        self._pass_number: int | None = None
        self._permuted: Indices = np.zeros(0, np.int64)
        self._window_stops: Indices = np.zeros(0, np.int64)
        self._windows: dict[tuple[int, int], Indices] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, pass_number: int, start: int, stop: int) -> Indices:
        """Draws `start` to `stop` of a pass, as indices into the lengths; fewer where the pass ends before."""
        stop = min(stop, len(self._rows))
        if start >= stop:
            return np.zeros(0, np.int64)
        self._open(pass_number)
        first = int(np.searchsorted(self._window_stops, start, side="right"))
        last = int(np.searchsorted(self._window_stops, stop, side="left"))
        before = int(self._window_stops[first - 1]) if first else 0
        drawn = np.concatenate([self._rows_of_window(pass_number, window) for window in range(first, last + 1)])
        return drawn[start - before : stop - before]

    def _open(self, pass_number: int) -> None:
        if pass_number != self._pass_number:
            self._permuted = permutation(mix64(self._seed, pass_number, "shards"), self._shards)
            sizes = (self._stops - self._starts)[self._permuted]
            ends = np.arange(self._window, len(sizes) + self._window, self._window).clip(max=len(sizes))
            self._window_stops = np.cumsum(sizes)[ends - 1]
            self._pass_number = pass_number

    def _rows_of_window(self, pass_number: int, window: int) -> Indices:
        known = self._windows.get((pass_number, window))
        if known is not None:
            return known
        shards = self._permuted[window * self._window : (window + 1) * self._window]
        rows = np.concatenate([self._rows[self._starts[shard] : self._stops[shard]] for shard in shards])
        # Ascending first: rows of equal keys then stand in one order, wherever their shards were put.
        rows = np.sort(rows)
        rows = rows[permutation(mix64(self._seed, pass_number, "rows"), self._keys[rows])]
        self._windows[pass_number, window] = rows
        while len(self._windows) > _KEPT_WINDOWS:
            del self._windows[next(iter(self._windows))]
        return rows


def as_indices(values: Any) -> Indices:
    """`values` as the type of indices."""
    return np.asarray(values, np.int64)
