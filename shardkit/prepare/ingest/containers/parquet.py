"""Parquet: rows in batches of bounded size, whatever the file's types and row groups are.

plan    file -> slices of whole row groups, or of rows of a large one  (parent)
chunks  slice -> record batches                                        (parent)
records chunk -> rows and exclusions                                   (worker)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required, check_columns
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.batch_rows import rows
from shardkit.prepare.ingest.containers.features import class_names, named
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record, exclusion, refused
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice, row_slices
from shardkit.records import Exclusion

_MAGIC = b"PAR1"


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchChunk:
    input: str
    folder: str
    first: int
    """Number of the first row."""
    batch: pa.RecordBatch | None
    damage: str = ""
    """Without a batch: what is wrong with the row."""
    reason: str = "damaged_input"


def open_parquet(file: InputFile) -> pq.ParquetFile:
    """The file, its borders checked first.

    Raises:
        SourceError: where it is cut or damaged.
    """
    with open_input(file.path, file.name) as handle:
        head = handle.read(4)
        handle.seek(max(0, file.size - 4))
        tail = handle.read(4)
    hint = "write or fetch the file again"
    if file.size < 12 or head != _MAGIC or tail != _MAGIC:
        what = "begins like one but its end is missing" if head == _MAGIC else "does not begin like one"
        raise SourceError(
            f"incomplete or no Parquet file: it has {file.size} bytes and {what}", where=file.name, hint=hint
        )
    try:
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise SourceError(
            f"the Parquet file of {file.size} bytes is damaged: {error}", where=file.name, hint=hint
        ) from error
    names = parquet.schema_arrow.names
    if len(set(names)) != len(names):
        raise SourceError("the Parquet file names a column twice", where=file.name, hint=hint)
    return parquet


def check(file: InputFile, required: Required, config: IngestConfig) -> None:
    """Refuse a file that is cut or damaged, or lacks a column that is needed.

    Raises:
        SourceError: with what is there.
    """
    with open_parquet(file) as parquet:
        check_columns(file, tuple(parquet.schema_arrow.names), required, config)


def plan(file: InputFile, config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """Slices of rows: whole row groups up to `config.unit_size` bytes, a larger group in equal stretches of rows."""
    with open_parquet(file) as parquet:
        groups = [parquet.metadata.row_group(k) for k in range(parquet.num_row_groups)]
        sizes = [(group.num_rows, group.total_byte_size) for group in groups]
    yield from row_slices("parquet", file, sizes, max_bytes=config.unit_size)


def chunks(piece: Slice, config: IngestConfig, _opener: Opener) -> Iterator[BatchChunk]:
    """The rows of a slice in batches that fit in memory."""
    folder = piece.file.name.rpartition("/")[0]
    row = 0
    with open_parquet(piece.file) as parquet:
        for group in range(parquet.num_row_groups):
            facts = parquet.metadata.row_group(group)
            first, row = row, row + facts.num_rows
            if row <= piece.start or first >= piece.end or not facts.num_rows:
                continue
            width = max(1, facts.total_byte_size // facts.num_rows)
            at = first
            try:
                for batch in parquet.iter_batches(
                    batch_size=max(1, min(CHUNK_RECORDS, CHUNK_BYTES // width)), row_groups=[group], use_threads=False
                ):
                    low, high = max(piece.start, at), min(piece.end, at + batch.num_rows)
                    if low < high:
                        part = batch.slice(low - at, high - low)
                        yield BatchChunk(input=piece.file.name, folder=folder, first=low + 1, batch=part)
                    at += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                what = f"row group {group} is damaged behind row {at}: {error}"
                if not config.salvage:
                    raise refused(piece.file.name, what) from error
                yield BatchChunk(input=piece.file.name, folder=folder, first=at + 1, batch=None, damage=what)
                return


def records(chunk: BatchChunk, config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """Rows and exclusions of a chunk in order."""
    if chunk.batch is None:
        yield exclusion(chunk.input, str(chunk.first), chunk.reason, chunk.damage)
        return
    labels = class_names(chunk.batch.schema) if config.prepared is not None else {}
    for offset, row in enumerate(rows(chunk.batch)):
        position = str(chunk.first + offset)
        if isinstance(row, Bad):
            yield exclusion(chunk.input, position, row.reason, row.detail)
        else:
            for name, names in labels.items():
                row[name] = named(row[name], names)
            value = config.with_split(chunk.input, row)
            yield Record(input=chunk.input, position=position, value=value, folder=chunk.folder)
