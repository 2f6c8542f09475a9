"""Arrow IPC files and streams of rows: what Hugging Face `datasets` saves, and anything else of that form.

plan    file -> slices of whole record batches         (parent)
chunks  slice -> record batches of bounded size        (parent)
records chunk -> rows and exclusions, as of Parquet    (worker)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required, check_columns
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.parquet import BatchChunk, records
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.record import refused
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice, row_slices

__all__ = ["check", "chunks", "plan", "records"]

_MAGIC = b"ARROW1"
_END = b"\xff" * 4 + bytes(4)
"""The last bytes of a stream."""
_NO_TEXT = "UTF8"
"""Stands in what Arrow says of a text that is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Batches:
    """Sizes of the record batches of a file."""

    schema: pa.Schema
    rows: tuple[int, ...]
    sizes: tuple[int, ...]
    """Bytes in memory, about those on disk."""
    damage: str = ""
    """With --salvage: what ended the file early."""


def check(file: InputFile, required: Required, config: IngestConfig) -> None:
    """Refuse a file that is cut or damaged, or lacks a column that is needed.

    Raises:
        SourceError: with what is there.
    """
    check_columns(file, tuple(_batches(file, config).schema.names), required, config)


def plan(file: InputFile, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    """Slices of whole batches up to `config.unit_size` bytes, a larger batch in equal stretches of rows."""
    known = opener.remember(file.name, lambda: _batches(file, config))
    yield from row_slices("arrow", file, zip(known.rows, known.sizes, strict=True), max_bytes=config.unit_size)


def chunks(piece: Slice, config: IngestConfig, opener: Opener) -> Iterator[BatchChunk]:
    """The rows of a slice in batches that fit in memory."""
    known = opener.remember(piece.file.name, lambda: _batches(piece.file, config))
    first = 0
    for batch, size in zip(_open(piece.file), known.sizes, strict=False):
        low, high = max(piece.start, first), min(piece.end, first + batch.num_rows)
        width = max(1, size // max(1, batch.num_rows))
        step = max(1, min(CHUNK_RECORDS, CHUNK_BYTES // width))
        for at in range(low, high, step):
            try:
                yield from _parts(batch.slice(at - first, min(step, high - at)), at + 1, piece.file)
            except pa.ArrowInvalid as error:
                what = f"its columns do not hold together behind row {at}: {error}"
                if not config.salvage:
                    raise refused(piece.file.name, what) from error
                yield _chunk(piece.file, at + 1, None, what)
                return
        first += batch.num_rows
        if first >= piece.end:
            break
    if known.damage and piece.end == sum(known.rows):
        yield _chunk(piece.file, piece.end + 1, None, known.damage)


def _parts(part: pa.RecordBatch, first: int, file: InputFile) -> Iterator[BatchChunk]:
    """Rows whose values lie inside their columns, as one chunk; one by one where a text is no UTF-8.

    Args:
        first: number of the first row.

    Raises:
        pa.ArrowInvalid: where the columns do not hold together.
    """
    try:
        part.validate(full=True)
    except pa.ArrowInvalid as error:
        if _NO_TEXT not in str(error):
            raise
        if part.num_rows == 1:
            yield _chunk(file, first, None, f"a text of the row is no UTF-8 ({error})", "invalid_utf8")
            return
        for row in range(part.num_rows):
            yield from _parts(part.slice(row, 1), first + row, file)
        return
    # A copy: a slice of a mapped file would be sent to the worker with the whole batch.
    copied = pa.RecordBatch.from_struct_array(pa.concat_arrays([part.to_struct_array()]))
    yield _chunk(file, first, copied.replace_schema_metadata(part.schema.metadata))


def _chunk(
    file: InputFile, first: int, batch: pa.RecordBatch | None, damage: str = "", reason: str = "damaged_input"
) -> BatchChunk:
    folder = file.name.rpartition("/")[0]
    return BatchChunk(input=file.name, folder=folder, first=first, batch=batch, damage=damage, reason=reason)


def _batches(file: InputFile, config: IngestConfig) -> _Batches:
    """The batches of a file, each looked at without reading its values.

    Raises:
        SourceError: where the file is damaged, unless --salvage was given.
    """
    rows, sizes = [], []
    schema = None
    damage = ""
    try:
        for batch in _open(file):
            schema = batch.schema
            batch.validate()
            rows.append(batch.num_rows)
            sizes.append(batch.nbytes)
    except (pa.ArrowException, OSError) as error:
        damage = f"it is damaged or cut off behind row {sum(rows)}: {error}"
        if not config.salvage or schema is None:
            raise refused(file.name, f"the Arrow file of {file.size} bytes cannot be read: {damage}") from error
    if schema is None:
        schema = _schema(file)
    if len(set(schema.names)) != len(schema.names):
        raise SourceError("the file names a column twice", where=file.name, hint="write it again with distinct names")
    return _Batches(schema=schema, rows=tuple(rows), sizes=tuple(sizes), damage=damage)


def _open(file: InputFile) -> Iterator[pa.RecordBatch]:
    """The batches of a file, mapped: values are read when they are looked at."""
    open_input(file.path, file.name).close()  # refused with a reason where it cannot be opened
    with pa.memory_map(file.path) as source:
        if _is_file(source):
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
        else:
            stream = pa.ipc.open_stream(source)
            yield from stream
            # A stream that is cut between two messages ends like a whole one, but for its end mark.
            source.seek(max(0, file.size - len(_END)))
            if source.read(len(_END)) != _END:
                raise pa.ArrowInvalid("the end mark is missing")


def _schema(file: InputFile) -> pa.Schema:
    with pa.memory_map(file.path) as source:
        return (pa.ipc.open_file if _is_file(source) else pa.ipc.open_stream)(source).schema


def _is_file(source: pa.MemoryMappedFile) -> bool:
    magic = source.read(len(_MAGIC))
    source.seek(0)
    return bytes(magic) == _MAGIC
