"""Candidate pairs from equal keys: one sort a band, never all against all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import Keys

Indices = npt.NDArray[np.int64]

FULL = 16
"""Up to so many rows of one key are paired each with each."""
_HALF = 32
_MIN_WAITING = 1 << 20
"""Pairs, 8 MB"""


def bucket_pairs(keys: Keys, *, full: int = FULL) -> tuple[Indices, Indices, int]:
    """Pairs of rows with equal keys, each pair once.

    Every row is paired with the first `full` of its bucket that come before it. That is every pair in a bucket of up
    to `full` rows, and at most `full` pairs a row in a larger one: the cost is linear however many rows look alike.

        full = 2        keys 7 5 7 7 0 7    pairs (0, 2) (0, 3) (2, 3) (0, 5) (2, 5)        1 larger bucket

    Which rows of a large bucket are its first depends on their places: a caller whose answer may not depend on them
    permutes the keys by something of the content.

    Args:
        keys: [N]; 0 is no key and pairs with nothing.

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
    return np.concatenate(ones), np.concatenate(twos), int((sizes > full).sum())


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
    """Pairs of places gathered from several bands without duplicates: 8 bytes a distinct pair, 32 while they merge.

    Places are below 2 ** 32.
    """

    def __init__(self) -> None:
        self._settled: Keys = np.empty(0, np.uint64)
        self._waiting: list[Keys] = []
        self._num_waiting = 0

    def add(self, one: Indices, two: Indices) -> None:
        """Add [P] pairs with one < two."""
        self._waiting.append((one.astype(np.uint64) << np.uint64(_HALF)) | two.astype(np.uint64))
        self._num_waiting += len(one)
        # Merging only when as much waits as is settled keeps the sum of all merges linear.
        if self._num_waiting > max(_MIN_WAITING, len(self._settled)):
            self._merge()

    def result(self) -> tuple[Indices, Indices]:
        """[P] distinct pairs, ascending by (one, two)."""
        self._merge()
        one = (self._settled >> np.uint64(_HALF)).astype(np.int64)
        two = (self._settled & np.uint64((1 << _HALF) - 1)).astype(np.int64)
        return one, two

    def _merge(self) -> None:
        pairs = np.concatenate([self._settled, *self._waiting])
        self._waiting, self._num_waiting = [], 0
        self._settled = np.empty(0, np.uint64)
        pairs.sort()
        fresh = np.ones(len(pairs), np.bool_)
        fresh[1:] = pairs[1:] != pairs[:-1]
        self._settled = pairs[fresh]
