"""tar shards: WebDataset layout, equal content is an equal file; beside it an Arrow index for random access.

    00000007-<example id>.0.jpg     first image of row 7
    00000007-<example id>.1.png     second image
    00000007-<example id>.json      everything but the bytes

Headers are written by own code: plain ustar, uid, gid and mtime 0, two zero blocks, padded to 10,240 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from shardkit.digest import canonical_json
from shardkit.records import Example
from shardkit.store.arrow_shard import TableReader, TableWriter, close_map
from shardkit.store.blocks import BlockCheck
from shardkit.store.columns import Rows
from shardkit.store.files import DurableFile
from shardkit.store.row_reader import Offsets, RowReader
from shardkit.store.rows import BLOCK_BYTES, BLOCK_ROWS, Block, Row, Written, from_row
from shardkit.store.schema import EXAMPLES_INDEX

SUFFIX = ".tar"
INDEX_SUFFIX = ".index.arrow"
_RECORD = 10_240
_HEADER = 512
"""Bytes of a header; data are padded to as many."""
_EXTENSIONS = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/tiff": "tif",
    "image/bmp": "bmp",
    "image/avif": "avif",
    "image/jp2": "jp2",
    "image/x-portable-pixmap": "ppm",
    "image/x-portable-graymap": "pgm",
    "image/x-portable-bitmap": "pbm",
}


def index_path(path: Path) -> Path:
    """The index beside the tar shard `path`."""
    return path.with_name(path.name + INDEX_SUFFIX)


def header(name: str, size: int) -> bytes:
    """A ustar header of a regular file; the name must fit its 100 bytes."""
    encoded = name.encode("ascii")
    if len(encoded) > 100:
        raise ValueError(f"member name of {len(encoded)} bytes")
    head = bytearray(_HEADER)
    head[0 : len(encoded)] = encoded
    head[100:108] = b"0000644\0"
    head[108:116] = b"0000000\0"
    head[116:124] = b"0000000\0"
    head[124:136] = b"%011o\0" % size
    head[136:148] = b"%011o\0" % 0
    head[148:156] = b" " * 8
    head[156:157] = b"0"
    head[257:265] = b"ustar\x0000"
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


class TarWriter:
    """Writes examples as a tar shard and its index, under temporary paths."""

    def __init__(self, path: Path) -> None:
        self._file = DurableFile(path)
        self._index = TableWriter(index_path(path), EXAMPLES_INDEX)
        self._blocks: list[Block] = []
        self._pending: list[Row] = []
        self._pending_bytes = 0
        self._offset = 0
        self.num_rows = 0

    def add(self, rows: Rows) -> None:
        """Add examples behind those that are there."""
        pictures = iter(rows.pictures)
        for row, size in zip(rows.facts.to_pylist(), rows.sizes, strict=True):
            self._add(row, pictures, size)

    def _add(self, row: Row, pictures: Iterator[bytes], size: int) -> None:
        key = f"{self.num_rows + len(self._pending):08d}-{row['example_id']}"
        described = canonical_json(row)
        for number, image in enumerate(row["images"]):
            data = next(pictures)
            extension = _EXTENSIONS.get(image["media_type"], "bin")
            image["offset"] = self._member(f"{key}.{number}.{extension}", data)
            image["size"] = len(data)
        self._member(f"{key}.json", described)
        self._pending.append(row)
        self._pending_bytes += size
        if len(self._pending) >= BLOCK_ROWS or self._pending_bytes >= BLOCK_BYTES:
            self._flush()

    def _member(self, name: str, data: bytes) -> int:
        """Write one member; returns the offset of its bytes."""
        self._file.write(header(name, len(data)))
        offset = self._file.size
        self._file.write(data)
        self._file.write(bytes(-len(data) % _HEADER))
        return offset

    def _flush(self) -> None:
        self._index.write_batch(self._pending)
        if self._pending:
            self._cut(len(self._pending))
        self._pending = []
        self._pending_bytes = 0

    def _cut(self, num_rows: int) -> None:
        self._blocks.append(
            Block(
                first_row=self.num_rows,
                num_rows=num_rows,
                offset=self._offset,
                size=self._file.size - self._offset,
                xxh3=self._file.cut_block(),
            )
        )
        self._offset = self._file.size
        self.num_rows += num_rows

    def close(self) -> Written:
        self._flush()
        self._file.write(bytes(2 * _HEADER))
        self._file.write(bytes(-self._file.size % _RECORD))
        self._cut(0)
        self._file.close()
        index = self._index.close()
        return Written(
            rows=self.num_rows,
            size=self._file.size,
            xxh3=self._file.xxh3,
            blocks=tuple(self._blocks),
            index_size=index.size,
            index_xxh3=index.xxh3,
        )

    def abandon(self) -> None:
        self._file.abandon()
        self._index.abandon()


class TarReader(RowReader):
    """The examples of a tar shard, through its index; the tar itself is never walked or extracted."""

    def __init__(self, path: Path, check: BlockCheck, index: BlockCheck) -> None:
        super().__init__(check, check.open(path))
        check.frame(self._map)
        self._index = TableReader(index_path(path), index)

    def example(self, row: int) -> Example:
        batch, place = self._index.locate(row)
        values: dict[str, Any] = batch.slice(place, 1).to_pylist()[0]
        self._check.block(self._map, self._check.block_of(row))
        for image in values["images"]:
            offset, size = image.pop("offset"), image.pop("size")
            image["bytes"] = bytes(memoryview(self._map)[offset : offset + size])
        return from_row(values)

    def _read(self, index: int) -> pa.RecordBatch:
        """Block `index` of the index, which has the rows of that of the tar; both are checked."""
        self._check.block(self._map, index)
        return self._index.read(index)

    def _places(self, images: pa.StructArray) -> tuple[Offsets, Offsets]:
        starts, sizes = (images.field(name).to_numpy() for name in ("offset", "size"))
        return starts, starts + sizes

    def columns(self, names: Sequence[str], *, rows: range | None = None) -> pa.Table:
        """The named columns, of all rows or of a range; `images` has facts, offsets and sizes, no bytes."""
        return self._index.table(names, rows=rows)

    def let_go(self) -> None:
        """What was read of the index may leave memory; it is read again where it is asked for."""
        self._index.let_go()

    def unlike_members(self) -> Iterator[tuple[int, str]]:
        """Yield (row, what) where the members of the tar are not those that the index describes: others read the tar alone.

        Members are walked by their headers, in order.
        """
        at = 0
        for row, described in enumerate(self._index_rows()):
            key = f"{row:08d}-{described['example_id']}"
            for number, image in enumerate(described["images"]):
                name = f"{key}.{number}.{_EXTENSIONS.get(image['media_type'], 'bin')}"
                offset, size = image.pop("offset"), image.pop("size")
                if offset != at + _HEADER or not self._is_member(at, name, size):
                    yield row, f"the tar has another member where the index says {name}"
                    return
                at = offset + size + -size % _HEADER
            size = self._size_at(at)
            if not self._is_member(at, f"{key}.json", size):
                yield row, f"the tar has another member where the index says {key}.json"
                return
            if not _says(self._bytes(at + _HEADER, size), described):
                yield row, f"{key}.json in the tar says something else than the index"
            at += _HEADER + size + -size % _HEADER
        if any(memoryview(self._map)[at:]):
            yield max(self.num_rows - 1, 0), "the tar has members that the index does not know"

    def _index_rows(self) -> Iterator[dict[str, Any]]:
        for first in range(0, self.num_rows, BLOCK_ROWS):
            yield from self._index.table(rows=range(first, min(first + BLOCK_ROWS, self.num_rows))).to_pylist()

    def _bytes(self, at: int, size: int) -> bytes:
        return bytes(memoryview(self._map)[at : at + size])

    def _size_at(self, at: int) -> int:
        """The size that the header there states; -1 where it states none."""
        digits = self._bytes(at + 124, 11)
        return int(digits, 8) if len(digits) == 11 and not digits.strip(b"01234567") else -1

    def _is_member(self, at: int, name: str, size: int) -> bool:
        try:
            wanted = header(name, size)
        except ValueError:  # a name that no member can have
            return False
        return size >= 0 and self._bytes(at, _HEADER) == wanted

    def close(self) -> None:
        super().close()
        self._index.close()
        close_map(self._map)


def _says(member: bytes, described: Row) -> bool:
    """Whether a member is the JSON of a row. Numbers are compared as such: 1 is 1.0."""
    wanted = canonical_json(described)
    try:
        return member == wanted or bool(orjson.loads(member) == orjson.loads(wanted))
    except ValueError:
        return False
