"""What is common: n-grams and pictures that so many groups hold that holding them tells nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import Keys

Indices = npt.NDArray[np.int64]
_MIN_WAITING = 1 << 20


class Frequencies:
    """In how many groups each feature occurs, over all and in each source; what is common for sure is held no longer.

    Args:
        num_features: how many features there are.
        surely: groups from which on a feature is common whatever the limits turn out to be.
    """

    def __init__(self, num_features: int, *, surely: int) -> None:
        self._common = np.zeros(num_features, np.bool_)
        self._surely = surely
        self._settled = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))
        self._waiting: list[tuple[Indices, Indices, Keys]] = []
        self._num_waiting = 0

    def add(self, features: Indices, sources: Indices, groups: Keys) -> None:
        """[M] occurrences: a feature in a row of this source and group; a group belongs to one source."""
        fresh = ~self._common[features]
        self._waiting.append((features[fresh], sources[fresh], groups[fresh]))
        self._num_waiting += int(fresh.sum())
        if self._num_waiting > max(_MIN_WAITING, len(self._settled[0])):
            self._merge()

    def common(self, limit: Callable[[int], int], num_groups: Indices) -> npt.NDArray[np.bool_]:
        """[features] whether each is common.

        Args:
            limit: how many of so many groups may hold a feature.
            num_groups: of each source.
        """
        self._merge()
        features, sources, _ = self._settled
        size = len(self._common)
        flags = self._common | (np.bincount(features, minlength=size) > limit(int(num_groups.sum())))
        width = max(len(num_groups), 1)
        both, counts = np.unique(features * width + sources, return_counts=True)
        limits = np.array([limit(int(number)) for number in num_groups] or [0], np.int64)
        flags[(both // width)[counts > limits[both % width]]] = True
        return flags

    def _merge(self) -> None:
        parts = [self._settled, *self._waiting]
        features, sources, groups = (np.concatenate(column) for column in zip(*parts, strict=True))
        self._waiting, self._num_waiting = [], 0
        order = np.lexsort((groups, sources, features))
        features, sources, groups = features[order], sources[order], groups[order]
        new = np.ones(len(features), np.bool_)
        new[1:] = (np.diff(features) != 0) | (np.diff(sources) != 0) | (groups[1:] != groups[:-1])
        features, sources, groups = features[new], sources[new], groups[new]
        self._common |= np.bincount(features, minlength=len(self._common)) > self._surely
        held = ~self._common[features]
        self._settled = (features[held], sources[held], groups[held])
