"""jsonl: JSON lines of the row schema; pictures are files named by their sha256, below `images/`."""

from __future__ import annotations

from pathlib import Path

import orjson

from shardkit.media.formats import EXTENSIONS
from shardkit.prepare.export.formats.format import Format, Writer
from shardkit.prepare.export.row import Exported, row
from shardkit.store.folder import FolderFile, HashedFile, write_by_content

IMAGES = "images"


class JsonlWriter:
    """One line a row. The order of fields is that of the row, so that `text` comes first for people."""

    def __init__(self, folder: Path, name: str) -> None:
        self._images = folder / IMAGES
        self._file = HashedFile(folder, name)

    def add(self, one: Exported) -> None:
        entries = []
        for image, digest in zip(one.example.images, one.digests, strict=True):
            extension = EXTENSIONS.get(image.media_type, ".bin")
            name, _ = write_by_content(self._images, digest, extension, image.data)
            entries.append(f"{IMAGES}/{name}")
        self._file.write(orjson.dumps(row(one, entries)) + b"\n")

    def close(self) -> FolderFile:
        self._file.close()
        return self._file.facts()

    def abandon(self) -> None:
        self._file.abandon()


def _open(folder: Path, name: str) -> Writer:
    return JsonlWriter(folder, name)


FORMAT = Format(
    about="JSON lines of the row schema, pictures as files beside them",
    open=_open,
    name="{split}-{number:05d}-of-{count:05d}.jsonl",
    read="shardkit ingest rows {path} -o DATASET",
    by_content=IMAGES,
)
