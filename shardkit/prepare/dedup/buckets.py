"""Candidate pairs from equal keys: one sort a band, never all against all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import Keys

Indices = npt.NDArray[np.int64]

FULL = 16
"""Up to so many rows of one key are paired each with each."""
_HALF = np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_WORD = 8
_MIN_WAITING = 1 << 20
"""Pairs, 8 MB"""
_MAX_SETTLED = 1 << 23
"""Pairs, 64 MB"""


def bucket_pairs(
    keys: Keys, *, full: int = FULL, crowd: npt.NDArray[np.bool_] | None = None
) -> tuple[Indices, Indices, int]:
    """Pairs of rows with equal keys, each pair once.

    Every row is paired with the first `full` of its bucket that come before it. That is every pair in a bucket of up
    to `full` rows, and at most `full` pairs a row in a larger one: the cost is linear however many rows look alike.

        full = 2        keys 7 5 7 7 0 7    pairs (0, 2) (0, 3) (2, 3) (0, 5) (2, 5)        1 larger bucket

    Which rows of a large bucket are its first depends on their places: a caller whose answer may not depend on them
    permutes the keys by something of the content.

    Args:
        keys: [N]; 0 is no key and pairs with nothing.
        crowd: [N] where given, the rows of larger buckets are marked in it.

    Returns:
        one, two: [P] places with one < two, in no promised order.
        num_large: how many buckets have more than `full` rows.
    """
    order, starts, sizes = _buckets(keys)
    start_of = np.repeat(starts, sizes)
    rank = np.arange(len(order)) - start_of
    ones, twos = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for place in range(min(full, int(sizes.max(initial=0)) - 1)):
        later = np.flatnonzero(rank > place)
        ones.append(order[start_of[later] + place])
        twos.append(order[later])
    if crowd is not None:
        crowd[order[np.repeat(sizes > full, sizes)]] = True
    return np.concatenate(ones), np.concatenate(twos), int((sizes > full).sum())


def across(one: Keys, two: Keys, *, full: int) -> tuple[Indices, Indices]:
    """Pairs of a row of `one` and a row of `two` with equal keys: each of the second with the first `full` of the first.

    Args:
        one: [N]; 0 is no key.
        two: [M]
    """
    order = np.argsort(one, kind="stable")
    keys = one[order]
    at, end = np.searchsorted(keys, two), np.searchsorted(keys, two, side="right")
    end = np.where(two == 0, at, np.minimum(end, at + full))
    ones, twos = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for place in range(int((end - at).max(initial=0))):
        there = np.flatnonzero(at + place < end)
        ones.append(order[at[there] + place])
        twos.append(there)
    return np.concatenate(ones), np.concatenate(twos)


def _buckets(keys: Keys) -> tuple[Indices, Indices, Indices]:
    """Places of the rows whose key repeats, bucket by bucket and ascending in each; start and size of each bucket."""
    order = np.argsort(keys)
    ordered = keys[order]
    equal = (ordered[1:] == ordered[:-1]) & (ordered[1:] != 0)
    alike = np.zeros(len(keys), np.bool_)
    alike[1:] |= equal
    alike[:-1] |= equal
    # Most keys are alone. Only the others are brought into an order that the kind of sort does not decide.
    order, ordered = order[alike], ordered[alike]
    again = np.lexsort((order, ordered))
    order, ordered = order[again], ordered[again]
    first = np.ones(len(order), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    return order, starts, np.diff(np.append(starts, len(order)))


class PairSet:
    """Pairs of places gathered from several bands without duplicates. Places are below 2 ** 32.

    Held are 8 bytes a distinct pair, 32 while they merge. With a folder, every
    64 MB of them go to a file there, and `blocks` reads them back part by part.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._runs: list[Path] = []
        self._settled: Keys = np.empty(0, np.uint64)
        """two << 32 | one, ascending: the second of a pair has few partners whatever the buckets, the first has not"""
        self._waiting: list[Keys] = []
        self._num_waiting = 0

    def add(self, one: Indices, two: Indices) -> None:
        """Add [P] pairs with one < two."""
        self._waiting.append((two.astype(np.uint64) << _HALF) | one.astype(np.uint64))
        self._num_waiting += len(one)
        # Merging only when as much waits as is settled keeps the sum of all merges linear.
        if self._num_waiting > max(_MIN_WAITING, len(self._settled)):
            self._merge()

    def result(self) -> tuple[Indices, Indices]:
        """[P] distinct pairs, ascending by (one, two)."""
        parts = list(self.blocks())
        one = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
        two = np.concatenate([np.empty(0, np.int64), *(part[1] for part in parts)])
        order = np.lexsort((two, one))
        return one[order], two[order]

    def blocks(self) -> Iterator[tuple[Indices, Indices]]:
        """The distinct pairs in parts, ascending by (two, one): each pair in one part only."""
        self._merge()
        runs = [*(np.memmap(path, np.uint64, "r") for path in self._runs), self._settled]
        num_pairs = sum(map(len, runs))
        if not num_pairs:
            return
        num_parts = -(-num_pairs // _MAX_SETTLED)
        last = max(int(run[-1] >> _HALF) for run in runs if len(run)) + 1
        borders = [last * part // num_parts for part in range(num_parts + 1)]
        for begin, end in pairwise(borders):
            least, most = np.uint64(begin << 32), np.uint64((end << 32) - 1)
            some = [run[np.searchsorted(run, least) : np.searchsorted(run, most, side="right")] for run in runs]
            pairs = _distinct(np.concatenate(some))
            yield (pairs & _LOWER).astype(np.int64), (pairs >> _HALF).astype(np.int64)

    def _merge(self) -> None:
        pairs = np.concatenate([self._settled, *self._waiting])
        self._waiting, self._num_waiting = [], 0
        self._settled = np.empty(0, np.uint64)
        self._settled = _distinct(pairs)
        if self._folder is not None and len(self._settled) > _MAX_SETTLED:
            path = self._folder / f"pairs-{len(self._runs)}.u64"
            self._settled.tofile(path)
            self._runs.append(path)
            self._settled = np.empty(0, np.uint64)


def _distinct(pairs: Keys) -> Keys:
    """Sorts `pairs` in place."""
    pairs.sort()
    fresh = np.ones(len(pairs), np.bool_)
    fresh[1:] = pairs[1:] != pairs[:-1]
    return pairs[fresh]


class BandFile:
    """Keys of N rows in several bands, in a file: one band at a time is in memory, and nothing is mapped."""

    def __init__(self, path: Path, *, bands: int, size: int) -> None:
        self._path = path
        self._bands = bands
        self._size = size
        with path.open("wb") as file:
            file.truncate(bands * size * _WORD)

    def put(self, start: int, keys: Keys) -> None:
        """Keys [bands, n] of the rows from `start`; a row that is never put has no key."""
        with self._path.open("r+b") as file:
            for band in range(self._bands):
                file.seek((band * self._size + start) * _WORD)
                file.write(np.ascontiguousarray(keys[band]).tobytes())

    def __iter__(self) -> Iterator[Keys]:
        for band in range(self._bands):
            yield np.fromfile(self._path, np.uint64, self._size, offset=band * self._size * _WORD)
