"""Arrow shards: one IPC file, one row an example, uncompressed, memory-mappable."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.records import Example
from shardkit.store.blocks import BlockCheck, Blocks, Kept
from shardkit.store.columns import Rows
from shardkit.store.files import DurableFile
from shardkit.store.row_reader import Offsets, RowReader, offsets_of
from shardkit.store.rows import BLOCK_BYTES, BLOCK_ROWS, Block, Row, Written, from_row
from shardkit.store.schema import EXAMPLES

SUFFIX = ".arrow"


class TableWriter:
    """Writes rows of any schema as an Arrow IPC file; each record batch is a block with its digest."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema = schema
        self._file = DurableFile(path)
        self._stream = pa.ipc.new_file(pa.PythonFile(self._file, mode="w"), schema)
        self._blocks: list[Block] = []
        self._offset = 0
        self.num_rows = 0
        self._cut(0)

    def write_batch(self, rows: list[Row]) -> None:
        """One record batch of `rows`; a block of its own."""
        if rows:
            self.write(pa.RecordBatch.from_pylist(rows, schema=self._schema))

    def write(self, batch: pa.RecordBatch) -> None:
        """A record batch that is made already; a block of its own."""
        self._stream.write_batch(batch)
        self._cut(batch.num_rows)

    def _cut(self, num_rows: int) -> None:
        size = self._file.size - self._offset
        self._blocks.append(
            Block(
                first_row=self.num_rows, num_rows=num_rows, offset=self._offset, size=size, xxh3=self._file.cut_block()
            )
        )
        self._offset = self._file.size
        self.num_rows += num_rows

    def close(self) -> Written:
        self._stream.close()
        self._cut(0)
        self._file.close()
        return Written(rows=self.num_rows, size=self._file.size, xxh3=self._file.xxh3, blocks=tuple(self._blocks))

    def abandon(self) -> None:
        self._file.abandon()


class ArrowWriter:
    """Writes examples as an Arrow shard under a temporary path."""

    def __init__(self, path: Path) -> None:
        self._table = TableWriter(path, EXAMPLES)
        self._pending: list[Rows] = []
        self._pending_rows = self._pending_bytes = 0

    def add(self, rows: Rows) -> None:
        """Add examples behind those that are there."""
        borders = [0]
        for stop, size in enumerate(rows.sizes, 1):
            self._pending_rows += 1
            self._pending_bytes += size
            if self._pending_rows >= BLOCK_ROWS or self._pending_bytes >= BLOCK_BYTES:
                borders.append(stop)
                self._pending_rows = self._pending_bytes = 0
        whole = len(borders) - 1
        if borders[-1] < len(rows):
            borders.append(len(rows))
        for number, part in enumerate(rows.cut(borders)):
            self._pending.append(part)
            if number < whole:
                self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._table.write(_block(self._pending))
        self._pending = []

    def close(self) -> Written:
        self._flush()
        return self._table.close()

    def abandon(self) -> None:
        self._table.abandon()


def _block(parts: Sequence[Rows]) -> pa.RecordBatch:
    """One record batch of all parts, with the bytes of their pictures."""
    # Joined with nothing, one part is copied, too: a slice would be written with what its buffers hold besides.
    facts = pa.concat_batches([*(part.facts for part in parts), parts[0].facts.slice(0, 0)])
    images = facts.column("images")
    fields = list(EXAMPLES.field("images").type.value_type)
    flat = images.flatten()
    columns = [_joined([picture for part in parts for picture in part.pictures]), *flat.flatten()]
    values = pa.StructArray.from_arrays(columns, fields=fields)
    column = pa.ListArray.from_arrays(images.offsets, values, type=EXAMPLES.field("images").type)
    place = facts.schema.get_field_index("images")
    return pa.RecordBatch.from_arrays([*facts.columns[:place], column, *facts.columns[place + 1 :]], schema=EXAMPLES)


def _joined(values: list[bytes]) -> pa.LargeBinaryArray:
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers)


class TableReader:
    """Random access to the rows of an Arrow IPC file, memory-mapped; a block is checked before its first use.

    Args:
        check: knows the blocks of the file and their digests.

    Raises:
        IntegrityError: where bytes are not those of the manifest.
    """

    def __init__(self, path: Path, check: BlockCheck) -> None:
        self._check = check
        self._map = check.open(path)
        check.frame(self._map)
        whole = pa.py_buffer(self._map)
        self._address = whole.address
        self._reader = check.parse(lambda: pa.ipc.open_file(pa.BufferReader(whole)))
        self._starts = check.first_rows
        self._batches = Blocks(check, self.read)
        self.num_rows = check.num_rows

    def batch(self, index: int) -> pa.RecordBatch:
        """Record batch `index`, checked, zero-copy; kept."""
        return self._batches[index]

    def read(self, index: int) -> pa.RecordBatch:
        """The same, not kept here: a record batch takes much memory, and most callers want little of it."""
        self._check.block(self._map, index)
        return self._check.parse(lambda: self._reader.get_batch(index))

    def kept(self, make: Callable[[pa.RecordBatch], Kept]) -> Blocks[Kept]:
        """What is made of each record batch, by the rows of the table."""
        return Blocks(self._check, lambda index: make(self.read(index)))

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def locate(self, row: int) -> tuple[pa.RecordBatch, int]:
        """The batch that holds `row`, and the row's place in it."""
        return self._batches.locate(row)

    def table(self, columns: Sequence[str] | None = None, *, rows: range | None = None) -> pa.Table:
        """All rows, or those of a range that is not empty, zero-copy; only `columns` where given."""
        rows = range(self.num_rows) if rows is None else rows
        first, last = (self._check.block_of(row) for row in (rows[0], rows[-1])) if rows else (0, -1)
        batches = [self.batch(index) for index in range(first, last + 1)]
        table = pa.Table.from_batches(batches, schema=self._reader.schema)
        if batches:
            table = table.slice(rows[0] - self._starts[first], len(rows))
        return table if columns is None else table.select(list(columns))

    @property
    def mapped(self) -> mmap.mmap | bytes:
        """The file."""
        return self._map

    def place_of(self, buffer: pa.Buffer | None) -> int:
        """Where in the file a buffer of one of its columns begins; 0 for an empty one.

        Raises:
            IntegrityError: where it is not of the file, as where columns are compressed.
        """
        if buffer is None or not buffer.size:
            return 0
        found: int = buffer.address - self._address
        return self._check.parse(lambda: _within(found, buffer.size, len(self._map)))

    def let_go(self) -> None:
        """What was read of the file may leave memory; it is read again where it is asked for."""
        if isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Drop the map; views that were handed out keep their memory alive."""
        self._batches.clear()
        del self._reader
        close_map(self._map)


def _within(place: int, size: int, whole: int) -> int:
    if not 0 <= place <= whole - size:
        raise pa.ArrowInvalid("a column is not in the file as it is")
    return place


def close_map(mapped: mmap.mmap | bytes) -> None:
    if isinstance(mapped, mmap.mmap):
        with contextlib.suppress(BufferError):  # somebody still holds a view; the map goes with the last of them
            mapped.close()


class ArrowReader(RowReader):
    """The examples of an Arrow shard."""

    def __init__(self, path: Path, check: BlockCheck) -> None:
        self._table = TableReader(path, check)
        super().__init__(check, self._table.mapped)

    def example(self, row: int) -> Example:
        batch, place = self._table.locate(row)
        values: dict[str, Any] = batch.slice(place, 1).to_pylist()[0]
        return from_row(values)

    def _read(self, index: int) -> pa.RecordBatch:
        return self._table.read(index)

    def _places(self, images: pa.StructArray) -> tuple[Offsets, Offsets]:
        stored = images.field("bytes")
        bounds = np.frombuffer(offsets_of(stored), np.int64) + self._table.place_of(stored.buffers()[2])
        return bounds[:-1], bounds[1:]

    def columns(self, names: Sequence[str], *, rows: range | None = None) -> pa.Table:
        """The named columns, of all rows or of a range; `images` comes with the size of its bytes instead of them."""
        table = self._table.table(names, rows=rows)
        if "images" in names:
            place = table.schema.get_field_index("images")
            table = table.set_column(
                place, "images", pa.chunked_array([_without_bytes(c) for c in table["images"].chunks], type=_FACTS)
            )
        return table

    def let_go(self) -> None:
        """What was read may leave memory; it is read again where it is asked for."""
        self._table.let_go()

    def close(self) -> None:
        super().close()
        self._table.close()


_FACTS = pa.list_(
    pa.struct(
        [("size", pa.int64()), *(field for field in EXAMPLES.field("images").type.value_type if field.name != "bytes")]
    )
)


def _without_bytes(images: pa.ListArray) -> pa.ListArray:
    fields = list(_FACTS.value_type)
    columns = [pc.binary_length(images.values.field("bytes"))]  # from the offsets: the bytes are not touched
    columns += [images.values.field(field.name) for field in fields[1:]]
    values = pa.StructArray.from_arrays(columns, fields=fields)
    return pa.ListArray.from_arrays(images.offsets, values, type=_FACTS)
