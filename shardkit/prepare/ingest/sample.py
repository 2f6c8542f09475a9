"""What an input shows at a glance: the names of its files, the beginnings of some, and its first rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import arrow, lines, mds, parquet, tables
from shardkit.prepare.ingest.containers.pairs import part
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream, as_utf8
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, suffix
from shardkit.prepare.ingest.listing import files_below
from shardkit.prepare.ingest.record import Record, refused
from shardkit.prepare.ingest.units import InputFile
from shardkit.store.tar_walk import walk

ROWS = 1000
"""Rows that are looked at, of each kind of table."""
_FILES = 20_000
_CHUNKS = 64
_HEADS = 20
"""Files of one suffix whose beginnings are looked at."""
_HEAD = 1 << 16
_MEMBERS = 200
_COMPRESSED = (".gz", ".zst", ".bz2")
_TABLES = {
    "csv": tables, "tsv": tables, "parquet": parquet, "arrow": arrow, "mds": mds, "jsonl": lines, "ndjson": lines,
}  # fmt: skip
"""Suffix -> the container that reads it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What a detection rule may look at."""

    names: tuple[str, ...]
    """Of the files, relative to the input root; at most 20,000."""
    rows: tuple[dict[str, Any], ...] = ()
    """The first rows of tables and JSON lines, where there are such."""
    row_files: tuple[tuple[str, int], ...] = ()
    """(name, number of rows) of the files that `rows` came from, in order."""
    tables: frozenset[str] = frozenset()
    """Suffixes of what `rows` came from."""
    members: tuple[str, ...] = ()
    """Names of the first members of a tar."""
    errors: tuple[SourceError, ...] = ()
    """What kept tables and tars from being read."""
    heads: tuple[tuple[str, bytes], ...] = ()
    """(name, first 64 KiB) of some files of each suffix that is no picture, Parquet file or tar."""

    def with_suffix(self, *suffixes: str) -> list[str]:
        """Names that end so, whatever their case."""
        return [name for name in self.names if name.lower().endswith(suffixes)]

    def heads_of(self, *suffixes: str) -> list[bytes]:
        """Beginnings of files whose names end so."""
        return [head for name, head in self.heads if name.lower().endswith(suffixes)]

    def labelled(self, *suffixes: str) -> list[tuple[str, bytes]]:
        """(image, beginning of its label) where a label of these suffixes shares the stem of an image."""
        images = {known[0]: name for name in self.names if (known := part(name, suffixes)) and known[1] == "image"}
        found = []
        for name, head in self.heads:
            known = part(name, suffixes)
            if known is not None and known[1] != "image" and known[0] in images:
                found.append((images[known[0]], head))
        return found

    def of_file(self, name: str) -> Sample:
        """What one file shows, with all pictures around it."""
        first = 0
        rows: tuple[dict[str, Any], ...] = ()
        for other, count in self.row_files:
            if other == name:
                rows = self.rows[first : first + count]
            first += count
        return replace(
            self,
            names=tuple(one for one in self.names if one == name or suffix(one) in IMAGE_SUFFIXES),
            rows=rows,
            row_files=((name, len(rows)),) if rows else (),
            tables=frozenset([_kind(name)]) if rows else frozenset(),
            members=self.members if _kind(name) in ("tar", "tgz") else (),
            heads=tuple(entry for entry in self.heads if entry[0] == name),
        )

    @property
    def images(self) -> list[str]:
        """Names of pictures."""
        return [name for name in self.names if suffix(name) in IMAGE_SUFFIXES]


def take(config: IngestConfig) -> Sample:
    """A sample of the PATHs of a run. Nothing is opened but some of their own files.

    Raises:
        SourceError: where a PATH cannot be read.
    """
    files = list(islice(files_below(config.paths), _FILES))
    tars = [file for file in files if _kind(file.name) in ("tar", "tgz")]
    counts: dict[str, int] = {}
    heads = {}
    for file in files:
        kind = _kind(file.name)
        if kind not in IMAGE_SUFFIXES and kind not in ("tar", "tgz", "parquet", "arrow", "mds"):
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= _HEADS:
                heads[file.name] = _head(file)
    rows: list[dict[str, Any]] = []
    errors: list[SourceError] = []
    row_files: list[tuple[str, int]] = []
    for file in files:
        module = _TABLES.get(_kind(file.name))
        if _kind(file.name) == "json" and lines.are_values(heads.get(file.name, b"")):
            module = lines
        if module is not None and len(rows) < ROWS and not tars:
            new = list(islice(rows_of(file, module, config, errors), ROWS - len(rows)))
            rows += new
            row_files += [(file.name, len(new))] if new else []
    return Sample(
        names=tuple(file.name for file in files),
        rows=tuple(rows),
        row_files=tuple(row_files),
        tables=frozenset(_kind(name) for name, _ in row_files),
        members=tuple(_members(tars[0], errors)) if tars else (),
        errors=tuple(errors),
        heads=tuple(heads.items()),
    )


def _kind(name: str) -> str:
    folded = name.lower()
    for end in _COMPRESSED:
        folded = folded.removesuffix(end)
    return os.path.splitext(folded)[1][1:]


def rows_of(file: InputFile, module: Any, config: IngestConfig, errors: list[SourceError]) -> Iterator[dict[str, Any]]:
    """The rows of a table as far as they can be read; what keeps it from being read goes into `errors`."""
    small = replace(config, unit_size=1 << 20, salvage=True)
    opener = Opener()
    try:
        module.check(file, (), small)
        pieces = module.plan(file, small, opener)
        chunks = (chunk for piece in pieces for chunk in module.chunks(piece, small, opener))
        for chunk in islice(chunks, _CHUNKS):
            for record in module.records(chunk, small):
                if isinstance(record, Record) and isinstance(record.value, dict):
                    yield record.value
    except SourceError as error:
        errors.append(error)
    finally:
        opener.close()


def _head(file: InputFile) -> bytes:
    """The first bytes of a file, as UTF-8 where they say that they are UTF-16."""
    stream = None
    try:
        stream = Stream(file)
        return as_utf8(stream.read(_HEAD))
    except (Damaged, SourceError):
        return b""
    finally:
        if stream is not None:
            stream.close()


def _members(file: InputFile, errors: list[SourceError]) -> Iterator[str]:
    stream = None
    try:
        stream = Stream(file)
        size = file.size if stream.compression is None else None
        for member in islice(walk(stream, size=size), _MEMBERS):
            yield member.name
    except Damaged as damage:
        errors.append(refused(file.name, f"damaged at byte {damage.place}: {damage.what}"))
    except SourceError as error:
        errors.append(error)
    finally:
        if stream is not None:
            stream.close()
