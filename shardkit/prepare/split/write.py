"""A unit of a split: its rows, wherever they lie, written in their order to shards of its own."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.store.dataset import Dataset, ShardReader
from shardkit.store.units import Receipt, UnitWriter

_OPEN_SHARDS = 128


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    writer: UnitWriter
    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    shards: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    """[n] each: where the rows lie in the input, in the order of writing."""
    examples: pa.Table
    """[n] their input, position, parent_id, marks, and declared: the key that takes the place of their group, or null."""
    regroup: bool
    """Put the declared key in the place of the group that ingest gave: that one was not held together."""


def write_unit(job: Job) -> Receipt:
    """Copy the rows, checked block by block; run by a worker. The receipt says that they are on disk."""
    readers = _readers(job.dataset, job.dataset_id, job.bases)
    with job.writer as unit:
        places = zip(job.shards.tolist(), job.rows.tolist(), job.examples.to_pylist(), strict=True)
        for shard, row, facts in places:
            example = readers.open(shard).example(row)
            if job.regroup:
                example = replace(example, group=facts["declared"])
            unit.add(
                example,
                input=facts["input"],
                position=facts["position"],
                parent_id=facts["parent_id"],
                marks={name: facts[name] for name in ("has_email", "has_phone")},
            )
        return unit.finish()


class _Readers:
    """The readers of the shards that were used last; each block is checked once while its shard stays open."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._open: OrderedDict[int, ShardReader] = OrderedDict()

    def open(self, shard: int) -> ShardReader:
        reader = self._open.pop(shard, None) or self._dataset.reader(self._dataset.shards[shard])
        self._open[shard] = reader
        if len(self._open) > _OPEN_SHARDS:
            self._open.popitem(last=False)[1].close()
        return reader


@lru_cache(maxsize=1)
def _readers(path: Path, dataset_id: str, bases: tuple[Path, ...]) -> _Readers:
    dataset = Dataset.open(path, base=bases)
    assert dataset.id == dataset_id, "the input was replaced during the run"
    return _Readers(dataset)


def forget() -> None:
    """Close what this process keeps open between units."""
    _readers.cache_clear()
