"""parquet: the row schema as Parquet, pictures inside as bytes and name."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.media.formats import EXTENSIONS
from shardkit.prepare.export.formats.format import Format, Writer
from shardkit.prepare.export.row import OWN, Exported, row
from shardkit.store.folder import FolderFile, HashedFile

IMAGE = pa.struct([("bytes", pa.large_binary()), ("path", pa.string())])
ROW = pa.schema(
    [
        ("text", pa.large_string()),
        ("images", pa.list_(IMAGE)),
        ("image_sizes", pa.list_(pa.list_(pa.int32()))),
        ("ocr_labels", pa.list_(pa.list_(pa.int32()))),
        ("reading_order", pa.list_(pa.list_(pa.int32()))),
        ("videos", pa.list_(pa.large_string())),
        ("video_sizes", pa.list_(pa.list_(pa.int32()))),
        (OWN, pa.large_string()),
    ]
)
"""The row schema; `_shardkit` is JSON as text."""

_GROUP_ROWS = 256
_GROUP_BYTES = 32 << 20
"""A row group closes at either bound: what a reader must hold at once."""
_COMPRESSION = dict.fromkeys(("text", OWN), "zstd") | {"images.list.element.bytes": "none"}


class ParquetWriter:
    """Writes rows in groups of bounded size.

    Args:
        schema: ROW, with the metadata that the format adds.
    """

    def __init__(self, folder: Path, name: str, schema: pa.Schema = ROW) -> None:
        self._schema = schema
        self._file = HashedFile(folder, name)
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._file, mode="w"),
            schema,
            compression=_COMPRESSION,
            use_dictionary=False,  # texts and pictures hardly repeat
            write_statistics=False,  # the least and the greatest picture help nobody
            write_page_checksum=True,
        )
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, one: Exported) -> None:
        made = row(one, [_entry(one, place) for place in range(len(one.example.images))])
        made[OWN] = orjson.dumps(_text_only(made[OWN])).decode()
        self._rows.append(made)
        self._bytes += sum(len(image.data) for image in one.example.images) + 2 * len(made["text"])
        if len(self._rows) >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._bytes = [], 0

    def close(self) -> FolderFile:
        self._flush()
        self._writer.close()
        self._file.close()
        return self._file.facts()

    def abandon(self) -> None:
        self._file.abandon()


def _entry(one: Exported, place: int) -> dict[str, Any]:
    """An image with a name that is its own in the file, so that whoever unpacks it can tell pictures apart."""
    image = one.example.images[place]
    name = f"{one.example.example_id}.{place}{EXTENSIONS.get(image.media_type, '.bin')}"
    return {"bytes": image.data, "path": name}


def _text_only(own: Mapping[str, Any]) -> dict[str, Any]:
    """`_shardkit` with the bytes of pictures that no segment shows as base64."""
    images = [
        {**image, "entry": {**image["entry"], "bytes": base64.b64encode(image["entry"]["bytes"]).decode()}}
        if "entry" in image
        else image
        for image in own["images"]
    ]
    return {**own, "images": images}


def _open(folder: Path, name: str) -> Writer:
    return ParquetWriter(folder, name)


FORMAT = Format(
    about="Parquet of the row schema, pictures inside",
    open=_open,
    name="{split}-{number:05d}-of-{count:05d}.parquet",
    read="shardkit ingest rows {path} -o DATASET",
)
