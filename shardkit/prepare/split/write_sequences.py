"""A unit of the split of a tokenized dataset: its sequences, wherever they lie, written in their order to one shard.

Blocks of the input are views of mapped files, checked once while their shard stays open; the rows of a chunk are taken
from them and put in order as columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.ragged import row_sums
from shardkit.prepare.split.write import chunks, gather
from shardkit.store.arrow_shard import TableReader
from shardkit.store.dataset import Dataset
from shardkit.store.receipts import Receipt
from shardkit.store.recent import RecentReaders
from shardkit.store.tables import replace_column
from shardkit.store.units import UnitWriter

_OPEN_SHARDS = 64
_BLOCK_ROWS = 1024
"""As tokenize writes them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SequenceJob:
    """n sequences of one unit, in the order of writing."""

    writer: UnitWriter
    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    shard: int
    """Place of the shard that is written among those of sequences."""
    split: str
    lengths: pa.Table
    """[n] their rows of tables/lengths: `shard` and `row` say where they lie in the input."""
    sizes: npt.NDArray[np.int64]
    """[n] payload bytes."""
    fresh: npt.NDArray[np.bool_]
    """[n] whether it is the first of its example."""
    examples: npt.NDArray[np.int32]
    """[n] place of the example's shard in the output's list."""
    rows: npt.NDArray[np.int32] | None = None
    """[n] the example's row there; None where it stays as it is."""
    groups: pa.Array | None
    """[n] the declared keys, which take the place of the group that ingest gave."""


def write_sequences(job: SequenceJob) -> Receipt:
    """Copy the sequences, checked block by block; run by a worker. The receipt says that they are on disk."""
    readers = _readers(job.dataset, job.dataset_id, job.bases)
    counts: Counter[str] = Counter()
    pixels: list[npt.NDArray[np.int64]] = []
    with job.writer as unit:
        unit.add_shard_of_batches(_blocks(readers, job, pixels, counts), readers.schema, counts)
        for source, totals in _totals(job, np.concatenate(pixels)).items():
            unit.count_source(source, totals)
        unit.append_batch("lengths", _lengths(job))
        return unit.finish()


def _blocks(
    readers: _Readers, job: SequenceJob, pixels: list[npt.NDArray[np.int64]], counts: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Blocks to write; meanwhile the pixels of each sequence, in the end the totals."""
    for chunk in chunks(job.sizes):
        batch = _gathered(readers, job, chunk)
        pixels.append(_pixels(batch))
        for start in range(0, batch.num_rows, _BLOCK_ROWS):
            # Taken, not sliced: a slice would be written with what its buffers hold besides.
            yield batch.take(pa.array(np.arange(start, min(start + _BLOCK_ROWS, batch.num_rows))))
    for totals in _totals(job, np.concatenate(pixels)).values():
        counts.update(totals)


def _gathered(readers: _Readers, job: SequenceJob, chunk: slice) -> pa.RecordBatch:
    """The sequences of a chunk, in its order."""
    shards, rows = (as_int32(job.lengths[name])[chunk] for name in ("shard", "row"))
    batch = gather(shards, rows, readers.rows)
    batch = replace_column(batch, "shard", pa.array(job.examples[chunk]))
    if job.rows is not None:
        batch = replace_column(batch, "row", pa.array(job.rows[chunk]))
    if job.groups is not None:
        batch = replace_column(batch, "group", job.groups.slice(chunk.start, batch.num_rows))
    return batch


def _pixels(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """[n] pixels after processing, over all images of a sequence."""
    slots = batch.column("slots")
    areas = slots.values.field("height").to_numpy().astype(np.int64) * slots.values.field("width").to_numpy()
    return row_sums(slots.offsets.to_numpy(), areas)


def _totals(job: SequenceJob, pixels: npt.NDArray[np.int64]) -> dict[str, Counter[str]]:
    """Source -> its totals, as tokenize counts them; none that is 0."""
    columns = {
        "examples": job.fresh.astype(np.int64),
        "sequences": np.ones(len(pixels), np.int64),
        "pixels": pixels,
        **{
            name.removeprefix("num_"): np.asarray(job.lengths[name].to_numpy(), np.int64)
            for name in job.lengths.column_names
            if name.startswith(("num_", "supervised_"))
        },
    }
    sources = job.lengths["source"].combine_chunks().dictionary_encode()
    codes, names = np.asarray(sources.indices.to_numpy(), np.int64), sources.dictionary.to_pylist()
    found: dict[str, Counter[str]] = {}
    for code, source in enumerate(names):
        own = codes == code
        found[source] = +Counter({unit: int(values[own].sum()) for unit, values in columns.items()})
    return found


def _lengths(job: SequenceJob) -> pa.RecordBatch:
    """Rows of tables/lengths of the output."""
    count = job.lengths.num_rows
    batch = job.lengths.combine_chunks().to_batches()[0]
    batch = replace_column(batch, "shard", pa.array(np.full(count, job.shard, np.int32)))
    batch = replace_column(batch, "row", pa.array(np.arange(count, dtype=np.int32)))
    return replace_column(batch, "split", pa.array([job.split] * count, pa.string()))


class _Readers:
    """The readers of the shards that were used last."""

    def __init__(self, dataset: Dataset) -> None:
        self._reader: RecentReaders[TableReader] = RecentReaders(
            lambda shard: dataset.sequence_reader(dataset.sequence_shards[shard]), limit=_OPEN_SHARDS
        )

    @property
    def schema(self) -> pa.Schema:
        return self._reader(0).schema

    def rows(self, shard: int, rows: npt.NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Rows of a shard, which ascend, block by block."""
        reader = self._reader(shard)
        at = 0
        while at < len(rows):
            batch, place = reader.locate(int(rows[at]))
            first = int(rows[at]) - place
            end = int(np.searchsorted(rows, first + batch.num_rows))
            yield batch.take(pa.array(rows[at:end] - first))
            at = end


@lru_cache(maxsize=1)
def _readers(path: Path, dataset_id: str, bases: tuple[Path, ...]) -> _Readers:
    dataset = Dataset.open(path, base=bases)
    assert dataset.id == dataset_id, "the input was replaced during the run"
    return _Readers(dataset)


def forget() -> None:
    """Close what this process keeps open between units."""
    _readers.cache_clear()
