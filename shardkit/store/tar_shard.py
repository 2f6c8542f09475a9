"""tar shards: WebDataset layout, equal content is an equal file; beside it an Arrow index for random access.

    00000007-<example id>.0.jpg     first image of row 7
    00000007-<example id>.1.png     second image
    00000007-<example id>.json      everything but the bytes

Headers are written by own code: plain ustar, uid, gid and mtime 0, two zero blocks, padded to 10,240 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardkit.digest import canonical_json
from shardkit.records import Example
from shardkit.store.arrow_shard import TableReader, TableWriter, _close
from shardkit.store.blocks import BlockCheck
from shardkit.store.files import DurableFile
from shardkit.store.rows import BLOCK_BYTES, BLOCK_ROWS, Block, Row, Written, from_row, to_row
from shardkit.store.schema import EXAMPLES_INDEX

SUFFIX = ".tar"
INDEX_SUFFIX = ".index.arrow"
_RECORD = 10_240
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
    head = bytearray(512)
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

    def add(self, example: Example, size: int) -> None:
        """Add a row whose payload is `size` bytes."""
        row = to_row(example)
        key = f"{self.num_rows + len(self._pending):08d}-{example.example_id}"
        for number, image in enumerate(row["images"]):
            data = image.pop("bytes")
            extension = _EXTENSIONS.get(image["media_type"], "bin")
            image["offset"] = self._member(f"{key}.{number}.{extension}", data)
            image["size"] = len(data)
        described = {
            **row,
            "images": [{k: v for k, v in i.items() if k not in ("offset", "size")} for i in row["images"]],
        }
        self._member(f"{key}.json", canonical_json(described))
        self._pending.append(row)
        self._pending_bytes += size
        if len(self._pending) >= BLOCK_ROWS or self._pending_bytes >= BLOCK_BYTES:
            self._flush()

    def _member(self, name: str, data: bytes) -> int:
        """Write one member; returns the offset of its bytes."""
        self._file.write(header(name, len(data)))
        offset = self._file.size
        self._file.write(data)
        self._file.write(bytes(-len(data) % 512))
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
        self._file.write(bytes(1024))
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


class TarReader:
    """The examples of a tar shard, through its index; the tar itself is never walked or extracted."""

    def __init__(self, path: Path, check: BlockCheck, index: BlockCheck) -> None:
        self._check = check
        self._map = check.open(path)
        check.frame(self._map)
        self._index = TableReader(index_path(path), index)
        self.num_rows = check.num_rows

    def example(self, row: int) -> Example:
        batch, place = self._index.locate(row)
        values: dict[str, Any] = batch.slice(place, 1).to_pylist()[0]
        self._check.block(self._map, self._check.block_of(row))
        for image in values["images"]:
            offset, size = image.pop("offset"), image.pop("size")
            image["bytes"] = bytes(memoryview(self._map)[offset : offset + size])
        return from_row(values)

    def image_bytes(self, row: int, image: int) -> memoryview:
        """The stored bytes of one image, zero-copy."""
        batch, place = self._index.locate(row)
        self._check.block(self._map, self._check.block_of(row))
        images = batch.column("images")
        at = images.offsets[place].as_py() + image
        offset = images.values.field("offset")[at].as_py()
        size = images.values.field("size")[at].as_py()
        return memoryview(self._map)[offset : offset + size]

    def columns(self, names: Sequence[str], *, rows: range | None = None) -> pa.Table:
        """The named columns, of all rows or of a range; `images` has facts, offsets and sizes, no bytes."""
        return self._index.table(names, rows=rows)

    def close(self) -> None:
        self._index.close()
        _close(self._map)
