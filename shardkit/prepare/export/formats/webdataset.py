"""webdataset: plain tars of samples.

00000007-<example id>.jpg       the image of row 7; of several .0.jpg, .1.png, ...
00000007-<example id>.json      the row, with the names of these members in `images`
00000007-<example id>.txt       the text alone: the first caption where there are captions
"""

from __future__ import annotations

from pathlib import Path

import orjson

from shardkit.media.formats import EXTENSIONS
from shardkit.prepare.export.formats.format import Format, Writer
from shardkit.prepare.export.row import Exported, row
from shardkit.records import Example
from shardkit.store.folder import FolderFile, HashedFile
from shardkit.store.tar_shard import header

_RECORD = 10_240


class WebDatasetWriter:
    """Members with owner and time 0, so that equal content is an equal file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = HashedFile(folder, name)

    def add(self, one: Exported) -> None:
        key = f"{one.number:08d}-{one.example.example_id}"
        images = one.example.images
        names = []
        for place, image in enumerate(images):
            number = f".{place}" if len(images) > 1 else ""
            names.append(f"{key}{number}{EXTENSIONS.get(image.media_type, '.bin')}")
            self._member(names[-1], image.data)
        self._member(f"{key}.json", orjson.dumps(row(one, names)))
        self._member(f"{key}.txt", _text(one.example).encode())

    def _member(self, name: str, data: bytes) -> None:
        self._file.write(header(name, len(data)))
        self._file.write(data)
        self._file.write(bytes(-len(data) % 512))

    def close(self) -> FolderFile:
        self._file.write(bytes(1024))
        self._file.write(bytes(-self._file.size % _RECORD))
        self._file.close()
        return self._file.facts()

    def abandon(self) -> None:
        self._file.abandon()


def _text(example: Example) -> str:
    """What a trainer of captions wants: the first caption, else all texts."""
    for relation in example.relations:
        texts = [example.segments[place].text for place in relation.segments]
        if relation.kind == "caption" and any(texts):
            return "".join(text or "" for text in texts)
    return example.text


def _open(folder: Path, name: str) -> Writer:
    return WebDatasetWriter(folder, name)


FORMAT = Format(
    about="tars for the webdataset package",
    open=_open,
    name="{split}-{number:05d}.tar",
    read='webdataset.WebDataset(sorted(glob.glob("{path}/*.tar")), shardshuffle=False)',
)
