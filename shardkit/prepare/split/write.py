"""A unit of a split: its rows, wherever they lie, written in their order to shards of its own.

Rows of one chunk lie scattered over the input. They are taken from its shards, joined, and put in order, all as
columns; only the bytes of pictures are fetched one by one. A shard of which many are wanted is held without its pictures,
of another only the rows themselves are looked at, window by window.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.dedup.keys import group_starts
from shardkit.store.columns import Rows
from shardkit.store.dataset import Dataset
from shardkit.store.receipts import Receipt
from shardkit.store.recent import RecentReaders
from shardkit.store.schema import EXAMPLES_FACTS, PROVENANCE, TABLES
from shardkit.store.shard import ShardReader
from shardkit.store.tables import replace_column
from shardkit.store.units import UnitWriter

_OPEN_SHARDS = 128
_CHUNK_ROWS, _CHUNK_BYTES = 32_768, 32_000_000
"""Rows that are gathered at a time, and their payload: many small rows, or few with pictures."""
_WINDOW = 256
"""Rows of a shard that are looked at together, where it is not held."""
_DENSE = 0.01
"""Share of a shard's rows in a chunk from which holding it costs less."""
_HELD_SHARD, _HELD_BYTES = 128_000_000, 256_000_000
"""Bytes of a shard that is held at all, and of all that are."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    writer: UnitWriter
    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    shards: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    """[n] each: where the rows lie in the input, in the order of writing."""
    sizes: npt.NDArray[np.int64]
    """[n] their payload bytes."""
    places: pa.Table
    """[n] their input, position, parent_id and marks."""
    groups: pa.Array | None
    """[n] the declared keys, which take the place of the group that ingest gave: that one was not held together."""


def write_unit(job: Job) -> Receipt:
    """Copy the rows, checked block by block; run by a worker. The receipt says that they are on disk."""
    readers = _readers(job.dataset, job.dataset_id, job.bases)
    alone = len(np.unique(job.shards)) == 1  # as forget cuts: no later unit needs that shard
    with job.writer as unit:
        for chunk in chunks(job.sizes):
            unit.extend(rows_of_chunk(readers, job, chunk))
        if alone:
            readers.close()
        return unit.finish()


def chunks(sizes: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Cuts of an order into chunks of _CHUNK_ROWS and _CHUNK_BYTES at most, if no single row is larger."""
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(sizes):
        before = int(ends[begin - 1]) if begin else 0
        full = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        end = min(max(full, begin + 1), begin + _CHUNK_ROWS, len(sizes))
        yield slice(begin, end)
        begin = end


def gather(
    shards: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
    read: Callable[[int, npt.NDArray[np.int32]], Iterable[pa.RecordBatch]],
) -> pa.RecordBatch:
    """Rows that lie in several shards, in the order asked; each shard is read once.

    Args:
        shards: [n] the shard of each.
        rows: [n] its row there.
        read: shard, ascending rows of it -> these rows.
    """
    order = np.lexsort((rows, shards))
    starts = group_starts(shards[order])
    parts = [
        part
        for begin, end in pairwise([*starts.tolist(), len(order)])
        for part in read(int(shards[order[begin]]), rows[order[begin:end]])
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_batches(parts).take(pa.array(back))


def rows_of_chunk(readers: Readers, job: Job, chunk: slice) -> Rows:
    """The rows of a chunk, in its order."""
    shards, rows = job.shards[chunk], job.rows[chunk]
    facts = gather(shards, rows, readers.facts)
    if job.groups is not None:
        facts = replace_column(facts, "group", job.groups.slice(chunk.start, len(rows)))
    num_images = np.diff(facts["images"].offsets.to_numpy())
    pictures = [
        bytes(readers.open(shard).image_bytes(row, image))
        for shard, row, count in zip(shards.tolist(), rows.tolist(), num_images.tolist(), strict=True)
        for image in range(count)
    ]
    return Rows(
        facts=facts,
        pictures=pictures,
        sizes=job.sizes[chunk].tolist(),
        num_images=num_images.tolist(),
        places=_batch(job.places.slice(chunk.start, len(rows))),
        assets=_batch(TABLES["assets"].empty_table()),
        provenance=_batch(PROVENANCE.empty_table()),
    )


def _facts(table: pa.Table) -> pa.RecordBatch:
    """Columns as a reader gives them, without what it says of the place of the pictures."""
    batch = _batch(table)
    place = EXAMPLES_FACTS.get_field_index("images")
    images, kind = batch.column(place), EXAMPLES_FACTS.field(place).type
    fields = list(kind.value_type)
    values = pa.StructArray.from_arrays([images.values.field(field.name) for field in fields], fields=fields)
    column = pa.ListArray.from_arrays(images.offsets, values, type=kind)
    return pa.RecordBatch.from_arrays(
        [*batch.columns[:place], column, *batch.columns[place + 1 :]], schema=EXAMPLES_FACTS
    )


def _batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    columns = [
        column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks) if column.num_chunks else
        pa.array([], field.type)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)


class Readers:
    """The readers of the shards that were used last; each block is checked once while its shard stays open."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.open: RecentReaders[ShardReader] = RecentReaders(
            lambda shard: dataset.reader(dataset.shards[shard]), limit=_OPEN_SHARDS
        )
        self._held: OrderedDict[int, list[pa.RecordBatch]] = OrderedDict()

    def close(self) -> None:
        """Let go of everything that is open or held."""
        self.open.close()
        self._held.clear()

    def facts(self, shard: int, rows: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Rows of a shard, which ascend, in the columns of EXAMPLES_FACTS."""
        held = self._held.pop(shard, None)
        ref = self._dataset.shards[shard]
        if held is None and len(rows) >= _DENSE * ref.num_rows and ref.entry.size <= _HELD_SHARD:
            held = self._whole(shard)
        if held is None:
            yield self._scattered(shard, rows)
            return
        self._held[shard] = held
        while sum(batch.nbytes for part in self._held.values() for batch in part) > _HELD_BYTES and len(self._held) > 1:
            self._held.popitem(last=False)
        for number, batch in enumerate(held):
            first = number * _CHUNK_ROWS
            begin, end = np.searchsorted(rows, (first, first + _CHUNK_ROWS))
            if begin < end:
                yield batch.take(pa.array(rows[begin:end] - first))

    def _whole(self, shard: int) -> list[pa.RecordBatch]:
        """All rows of a shard, _CHUNK_ROWS at a time: copied, so that the file need not stay in memory beside them."""
        reader = self.open(shard)
        held = []
        for first in range(0, reader.num_rows, _CHUNK_ROWS):
            rows = range(first, min(first + _CHUNK_ROWS, reader.num_rows))
            held.append(_facts(reader.columns(EXAMPLES_FACTS.names, rows=rows)))
            reader.let_go()
        if not any(len(batch["images"].values) for batch in held):
            self.open.drop(shard)  # nothing is left in it that is not held
        return held

    def _scattered(self, shard: int, rows: npt.NDArray[np.int32]) -> pa.RecordBatch:
        reader = self.open(shard)
        starts = group_starts(rows // _WINDOW)
        tables = []
        for begin, end in pairwise([*starts.tolist(), len(rows)]):
            first, last = int(rows[begin]), int(rows[end - 1])
            table = reader.columns(EXAMPLES_FACTS.names, rows=range(first, last + 1))
            own = rows[begin:end] - first
            tables.append(table if len(own) == last - first + 1 else table.take(pa.array(own)))
        return _facts(pa.concat_tables(tables))


@lru_cache(maxsize=1)
def _readers(path: Path, dataset_id: str, bases: tuple[Path, ...]) -> Readers:
    dataset = Dataset.open(path, base=bases)
    assert dataset.id == dataset_id, "the input was replaced during the run"
    return Readers(dataset)


def forget() -> None:
    """Close what this process keeps open between units."""
    _readers.cache_clear()
