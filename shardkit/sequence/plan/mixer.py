"""The mixer of `shardkit.digest` for many words at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


def mix64_array(start: int, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """`mix64(*parts, word)` for every word, where `start` is `mix64(*parts)`."""
    z = (np.uint64(start) ^ words) + _INCREMENT
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLIER_1
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLIER_2
    mixed: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def permutation(start: int, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The places of `words` by ascending mixed value; equal words keep their order."""
    return np.argsort(mix64_array(start, words), kind="stable").astype(np.int64)
