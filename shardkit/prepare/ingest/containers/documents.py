"""JSON documents: one file that lists many entries. The format says which; a file it does not know is refused.

plan    file -> one slice                                (parent)
chunks  slice -> up to 256 entries each, in their order  (parent)
records chunk -> entries                                 (worker)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.json_parts import Items, Members, parse_parts
from shardkit.prepare.ingest.containers.lines import check_encoding
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record, refused
from shardkit.prepare.ingest.units import CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

MAX_DOCUMENT = 2 << 30
"""Bytes; the whole document is held while its entries are handed out."""
PARTED = 16 << 20
"""Bytes from which on the items of a document's arrays and objects are parsed one by one."""

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry of a document."""

    position: str
    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Entries:
    """What a document lists, in order."""

    entries: Iterable[Entry]
    """A document in parts gives them as they are asked for, and may raise Bad then."""
    changes: Counter[str] = field(default_factory=Counter)
    """What is said of the document as a whole, by name."""


Split = Callable[[Any], Entries]
"""The value of a document -> its entries; raises Bad for one of an unknown layout."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryChunk:
    input: str
    folder: str
    entries: tuple[Entry, ...] = ()
    changes: Counter[str] = field(default_factory=Counter)


def check(file: InputFile, _required: Required, _config: IngestConfig) -> None:
    """Refuse a file that is too large or of another encoding.

    Raises:
        SourceError: by name.
    """
    if file.size > MAX_DOCUMENT:
        raise SourceError(
            f"the document has {file.size} bytes, the limit is {MAX_DOCUMENT}",
            where=file.name,
            hint="write it as JSON lines, or in parts",
        )
    check_encoding(file)


def plan(file: InputFile, _config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """The whole document: its entries have no borders that could be found without reading it."""
    yield Slice(container="json", file=file, end=-1, size=file.size)


def chunks(piece: Slice, split: Split) -> Iterator[EntryChunk]:
    """The entries of a document, a few hundred at a time.

    Raises:
        SourceError: where it is damaged, or of no layout that the format knows.
    """
    name = piece.file.name
    folder = name.rpartition("/")[0]
    try:
        data = _read(piece.file).removeprefix(_BOM)
        parsed = parse(data) if len(data) < PARTED else parse_parts(data)
        del data
        found = split(parsed.value)
        changes = parsed.changes + found.changes
        if changes:
            yield EntryChunk(input=name, folder=folder, changes=changes)
        entries = iter(found.entries)
        while held := tuple(islice(entries, CHUNK_RECORDS)):
            yield EntryChunk(input=name, folder=folder, entries=held)
    except Bad as bad:
        error = refused(name, f"{bad.detail} ({bad.reason})")
        error.hint = "see `shardkit ingest --help` for the kinds of input of each format"
        raise error from None
    altered = _altered(parsed.value)
    if altered:
        yield EntryChunk(input=name, folder=folder, changes=altered)


def _altered(value: Any) -> Counter[str]:
    """What was altered to keep the parts of a document that was not parsed whole."""
    parts = value.values() if isinstance(value, dict) else (value,)
    return sum((one.changes for one in parts if isinstance(one, Items | Members)), Counter())


def _read(file: InputFile) -> bytes:
    stream = Stream(file)
    blocks: list[bytes] = []
    size = 0
    try:
        if stream.compression is None and file.size <= MAX_DOCUMENT:
            return stream.read(max(1, file.size))
        while block := stream.read(1 << 20):
            blocks.append(block)
            size += len(block)
            if size > MAX_DOCUMENT:
                raise refused(file.name, f"the document has more than {MAX_DOCUMENT} bytes")
    except Damaged as damage:
        raise refused(file.name, f"{damage.what} after {damage.place} bytes") from damage
    finally:
        stream.close()
    return b"".join(blocks)


def records(chunk: EntryChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """The entries of a chunk."""
    if chunk.changes:
        yield chunk.changes
    for entry in chunk.entries:
        yield Record(input=chunk.input, position=entry.position, value=entry.value, folder=chunk.folder)
