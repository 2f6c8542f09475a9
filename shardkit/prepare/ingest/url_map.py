"""--url-map: addresses to pictures of a local store. An address is a key and is never fetched.

FILE.jsonl     lines of {"url": ..., "file": ...}; file is null where the address could not be fetched. Files lie
               relative to the folder of the map
FILE.parquet   what img2dataset writes beside its shards: url, key, status. KEY.jpg lies in FILE.tar or FILE/
FILE.tar       a shard of img2dataset without its table: KEY.json names the url of KEY.jpg
FOLDER         of such tables and shards
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers.streams import Damaged, Stream
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, suffix
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import InputFile
from shardkit.store.tar_walk import Member, walk

_STORES = (".parquet", ".tar")
_SMALL = 64 << 10
"""Bytes: the .json members of a shard are kept while it is walked."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the picture of an address lies."""

    folder: str
    """Of its map."""
    file: str
    offset: int = -1
    """Of a member of the tar `file`; -1 where `file` is the picture itself."""
    size: int = 0


def map_files(paths: Iterable[Path]) -> tuple[str, ...]:
    """The resolved files of --url-map: folders give what of img2dataset is in them, tables the tar beside them.

    Raises:
        SourceError: where a folder has neither.
    """
    found: dict[str, None] = {}
    for path in paths:
        place = os.path.realpath(path)
        names = [place]
        if os.path.isdir(place):
            names = [os.path.join(here, name) for here, _, names in sorted(os.walk(place)) for name in sorted(names)]
            names = [name for name in names if name.endswith(_STORES)]
            if not names:
                raise SourceError(
                    "the folder has no tables or tars of img2dataset",
                    where=str(path),
                    hint="give a file of address and file names to --url-map, or the folder to --images",
                )
        for name in names:
            beside = name.removesuffix(".parquet") + ".tar"
            found.update(dict.fromkeys([name, beside] if os.path.isfile(beside) else [name]))
        folder = place if os.path.isdir(place) else os.path.dirname(place)
        for name in found:
            if name.startswith(folder) and os.path.commonpath([os.path.realpath(name), folder]) != folder:
                raise SourceError(
                    "a link leads out of the folder of pictures", where=name, hint="name the file that it leads to"
                )
    return tuple(found)


@lru_cache(maxsize=1)
def load_maps(paths: tuple[str, ...]) -> dict[str, Place]:
    """Address -> its place over all maps; the first map that knows an address wins.

    Held in memory once a process: about 300 bytes an address.

    Raises:
        SourceError: where a map is none.
    """
    found: dict[str, Place] = {}
    for path in paths:
        entries = _lines(path)
        if path.endswith(".parquet"):
            entries = _table(path)
        elif path.endswith(".tar"):
            entries = iter(()) if f"{path.removesuffix('.tar')}.parquet" in paths else _shard(path)
        for url, place in entries:
            found.setdefault(url, place)
    return found


def _lines(path: str) -> Iterator[tuple[str, Place]]:
    folder, name = os.path.split(path)
    with open_input(path, name) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                url, file = _entry(line, f"{name}:{number}")
                if file is not None:
                    yield url, Place(folder, file)


def _entry(line: bytes, where: str) -> tuple[str, str | None]:
    entry = _json(line)
    url, file = (entry.get("url"), entry.get("file")) if isinstance(entry, dict) else (None, None)
    if not isinstance(url, str) or not (file is None or isinstance(file, str)):
        raise SourceError(
            'an address map has lines of {"url": "...", "file": "..."}, this is none',
            where=where,
            hint="correct the line, or give another file to --url-map",
        )
    return url, file


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except ValueError:
        return None


def _table(path: str) -> Iterator[tuple[str, Place]]:
    """The addresses of a table of img2dataset whose pictures were fetched."""
    folder, name = os.path.split(path)
    beside = path.removesuffix(".parquet")
    if os.path.isfile(f"{beside}.tar"):
        members = {key: Place(folder, f"{name[:-8]}.tar", m.offset, m.size) for key, m in _pictures(f"{beside}.tar")[0]}
    elif os.path.isdir(beside):
        files = sorted(file for file in os.listdir(beside) if suffix(file) in IMAGE_SUFFIXES)
        members = {os.path.splitext(file)[0]: Place(folder, f"{name[:-8]}/{file}") for file in files}
    else:
        members = {}
    for url, key, status in _columns(path, name):
        if isinstance(url, str) and status in (None, "success") and str(key) in members:
            yield url, members[str(key)]


def _columns(path: str, name: str) -> Iterator[tuple[Any, Any, Any]]:
    """url, key and status of each row."""
    hint = "give a table that img2dataset wrote, or JSON lines of url and file"
    try:
        # Arrow itself opens no path that is no UTF-8.
        with open(path, "rb") as file, pq.ParquetFile(file) as table:
            names = set(table.schema_arrow.names)
            if not {"url", "key"} <= names:
                raise SourceError(
                    "a table of addresses has the columns url and key, this is none", where=name, hint=hint
                )
            columns = ["url", "key", *({"status"} & names)]
            for batch in table.iter_batches(columns=columns, batch_size=4096):
                for row in batch.to_pylist():
                    yield row["url"], row["key"], row.get("status")
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"the table of addresses cannot be read: {error}", where=name, hint=hint) from error


def _shard(path: str) -> Iterator[tuple[str, Place]]:
    """The addresses that the .json members of a tar name."""
    folder, name = os.path.split(path)
    pictures, urls = _pictures(path)
    for key, member in pictures:
        if key in urls:
            yield urls[key], Place(folder, name, member.offset, member.size)


def _pictures(path: str) -> tuple[list[tuple[str, Member]], dict[str, str]]:
    """(key, member) of the pictures of a tar, and key -> url by its .json members."""
    name = os.path.basename(path)
    size = os.path.getsize(path)
    stream = Stream(InputFile(name=name, path=path, size=size))
    pictures: list[tuple[str, Member]] = []
    urls: dict[str, str] = {}
    try:
        if stream.compression is not None:
            raise SourceError("a tar of pictures is read in any order, and this one is packed", where=name, hint="unpack it first")  # fmt: skip
        for member in walk(stream, size=size, keep=_SMALL):
            key = os.path.splitext(member.name)[0]
            if suffix(member.name) in IMAGE_SUFFIXES and not member.unsafe:
                pictures.append((key, member))
            elif suffix(member.name) == "json" and member.data is not None:
                value = _json(member.data)
                if isinstance(value, dict) and isinstance(value.get("url"), str):
                    urls[key] = value["url"]
    except Damaged as damage:
        raise SourceError(
            f"the tar of pictures is damaged at byte {damage.place}: {damage.what}", where=name, hint="fetch it again"
        ) from damage
    finally:
        stream.close()
    return pictures, urls
