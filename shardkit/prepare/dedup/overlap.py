"""Exact Jaccard similarity of many pairs of sets that lie in a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.buckets import Indices
from shardkit.prepare.dedup.keys import Keys

_BLOCK_PAIRS = 4096
_PAIR_BITS = np.uint64(12)
_HASH_BITS = np.uint64(64) - _PAIR_BITS
_BLOCK_WORDS = 1 << 20
_COPY_BYTES = 1 << 20


def trimmed(hashes: Keys) -> Keys:
    """The upper 52 bits of hashes: the other 12 are for the place of a pair in its block."""
    upper: Keys = hashes >> _PAIR_BITS
    return upper


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Block:
    """P pairs whose sets are compared at a time, and where the sets lie in the file."""

    path: Path
    one: Indices
    two: Indices
    """[P] each"""
    begin: Indices
    size: Indices
    """[2, P] words"""


class SetFile:
    """Sets of 52-bit hashes by number, one after the other in a file. Held are 16 bytes a number."""

    def __init__(self, path: Path, size: int) -> None:
        self._path = path
        self._begin, self._size = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self._words = 0
        path.write_bytes(b"")

    def append(self, numbers: Indices, sizes: Indices, part: Path) -> None:
        """Move the sets of `numbers` here from a file that has one after the other, each as `distinct` makes it."""
        with self._path.open("ab") as file, part.open("rb") as more:
            shutil.copyfileobj(more, file, _COPY_BYTES)
        part.unlink()
        self._begin[numbers] = self._words + np.cumsum(sizes) - sizes
        self._size[numbers] = sizes
        self._words += int(sizes.sum())

    def blocks(self, one: Indices, two: Indices, *, floor: float) -> Iterator[Block]:
        """Pairs of numbers in blocks of bounded size, without those whose sizes alone rule out a Jaccard of `floor`."""
        small, large = np.sort([self._size[one], self._size[two]], axis=0)
        possible = (small > 0) & (small >= floor * large)
        one, two = one[possible], two[possible]
        ends = np.cumsum(self._size[one] + self._size[two])
        start = 0
        while start < len(one):
            before = ends[start - 1] if start else 0
            fitting = int(np.searchsorted(ends, before + _BLOCK_WORDS, side="right"))
            own = slice(start, min(max(fitting, start + 1), start + _BLOCK_PAIRS))
            numbers = np.stack([one[own], two[own]])
            yield Block(
                path=self._path, one=one[own], two=two[own], begin=self._begin[numbers], size=self._size[numbers]
            )
            start = own.stop


def compare(floor: float, block: Block) -> tuple[Indices, Indices, npt.NDArray[np.float64]]:
    """The pairs of a block with a Jaccard similarity of at least `floor`, and the similarity; run by a worker.

    The first sets of all pairs are laid one after the other, and so are the second, each hash under the place of its
    pair: both rows ascend, a stable sort merges them, and what then stands twice is shared.
    """
    stored = np.memmap(block.path, np.uint64, "r")
    both = np.concatenate([_laid(stored, block.begin[side], block.size[side]) for side in (0, 1)])
    both.sort(kind="stable")
    twice = both[1:][both[1:] == both[:-1]] >> _HASH_BITS
    shared = np.bincount(twice.astype(np.int64), minlength=len(block.one))
    score = shared / (block.size.sum(axis=0) - shared)
    near = score >= floor
    return block.one[near], block.two[near], score[near]


def _laid(stored: Keys, begin: Indices, size: Indices) -> Keys:
    ends = np.cumsum(size)
    places = np.arange(ends[-1]) + np.repeat(begin - (ends - size), size)
    pair = np.repeat(np.arange(len(size), dtype=np.uint64) << _HASH_BITS, size)
    laid: Keys = stored[places] | pair
    return laid
