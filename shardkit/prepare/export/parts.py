"""The files of an export: which rows go into which, decided before anything is written.

Rows keep the order of the dataset, split by split; a file closes when its payload reaches the bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.engine import map_ordered
from shardkit.prepare.dedup.inputs import Slice, as_int32, slices
from shardkit.prepare.report.measure import payloads
from shardkit.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """One file of an export."""

    split: str
    number: int
    """In its split, from 0."""
    count: int
    """Files of its split."""
    shards: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    """[n] each: where the rows lie."""
    positions: npt.NDArray[np.int64]
    """[n] their places in tables/examples."""
    num_bytes: int
    """Payload."""


def parts(
    dataset: Dataset, splits: Sequence[str], *, shard_size: int, bases: tuple[Path, ...], workers: int
) -> list[Part]:
    """The files of `splits`, in order; a split without rows has one file, which is empty."""
    table = dataset.table("examples", ["shard_index", "row"])
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    sizes = np.zeros(len(rows), np.int64)
    pieces: list[Slice] = list(slices(dataset, bases, shards, rows, np.arange(len(rows))))
    for piece, found in zip(pieces, map_ordered(payloads, pieces, workers=workers), strict=True):
        sizes[piece.positions] = found
    of_shard = np.array([dataset.splits.index(shard.split) for shard in dataset.shards] or [0], np.int32)
    split_of = of_shard[shards] if len(shards) else np.empty(0, np.int32)
    made: list[Part] = []
    for split in splits:
        own = np.flatnonzero(split_of == dataset.splits.index(split))
        cuts = list(_cuts(sizes[own], shard_size))
        for number, (begin, end) in enumerate(cuts):
            positions = own[begin:end]
            made.append(
                Part(
                    split=split,
                    number=number,
                    count=len(cuts),
                    shards=shards[positions],
                    rows=rows[positions],
                    positions=positions,
                    num_bytes=int(sizes[positions].sum()),
                )
            )
    return made


def _cuts(sizes: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows whose sizes add up to `most`, the row that reaches it included."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = ends[begin - 1] if begin else 0
        end = min(int(np.searchsorted(ends, before + most)) + 1, len(sizes))
        yield begin, end
        begin = end
    if not len(sizes):
        yield 0, 0
