"""How much disk a run will need at most, told from a listing of its inputs before any of them is parsed.

    folders of pairs     their files, and what our tables say of each page; with metadata kept, a TIFF of pages twice
    tars                 the tar, whose member headers make up for our tables
    text and tables      their bytes unpacked, and what our tables say of each record
    pictures by path     the largest below the roots, as many as the inputs have room to name

A record's size is told from the head of its file, and packed text is taken to unpack by `_UNPACKS`. What lies below the
roots and is named by nobody counts too, where the inputs could name it: this is a bound, not a forecast. So two numbers
are told: what the run needs in any case, which refuses it where the disk has less, and what it may need at most, which
only warns. With --limit nothing is foretold.
"""

from __future__ import annotations

import heapq
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.errors import OutputError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.streams import Damaged, Stream
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES
from shardkit.prepare.ingest.formats.tiff_pages import tiff_pages
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.units import InputFile

_RECORD_BYTES = 400
"""Of our tables, for each record, while they are joined at the end."""
_PICTURE_BYTES = 2600
"""The same for each picture: ids, hashes, preview, provenance."""
_UNPACKS = 6
"""Times that packed text grows."""
_REFERENCE_BYTES = 8
"""Fewest bytes in which a record names a picture."""
_SAMPLE = 1 << 16
_MOST_FILES = 1_000_000
"""Files below the roots that are looked at; in a larger folder the bound holds for those."""
_ONE_PICTURE = frozenset({"caption"})
"""Formats of which a record names one."""
_COUNTED = frozenset({"table", "jsonl", "parquet", "line_pairs"})
"""Containers whose records are counted, or told from the line ends at their head."""
_ABOUT, _FEW = 2, 100
"""Times, and by how many, that count may be too low."""
_WITHOUT_PICTURES = frozenset({"text"})
"""Formats whose records name none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskNeed:
    """Bytes of the dataset and its unfinished parts."""

    sure: int
    """Of what is read in any case: files of folders, tars, texts and tables as they lie there."""
    most: int
    """With all that packed texts may unpack to, and all pictures that records may name."""


def disk_need(listing: Listing, config: IngestConfig) -> DiskNeed | None:
    """What the disk must have, and what it may have to; None where --limit leaves it open."""
    if config.limit is not None:
        return None
    sure = sum(_of_pair(file, keep_metadata=config.keep_metadata) for file in listing.files)
    unsure = num_named = 0
    for kind, file in listing.inputs:
        if kind == "tar":
            sure += file.size
        elif kind != "files":
            size, num_records = _text(kind, file)
            whole = size + num_records * _RECORD_BYTES
            sure += min(whole, file.size)
            unsure += max(0, whole - file.size)
            readable = size + sum(one.size for one in file.beside)
            one_each = config.format in _ONE_PICTURE and kind in _COUNTED
            num_named += min(readable // _REFERENCE_BYTES, _ABOUT * num_records + _FEW if one_each else readable)
    if num_named and config.format not in _WITHOUT_PICTURES:
        sizes = heapq.nlargest(num_named, islice(_pictures(listing), _MOST_FILES))
        unsure += sum(sizes) + len(sizes) * _PICTURE_BYTES
    return DiskNeed(sure=sure, most=sure + unsure)


def free_space(output: Path) -> int:
    """Bytes that may be written where `output` lies or will lie."""
    place = output.absolute()
    while not place.exists():
        place = place.parent
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def check_space(need: DiskNeed | None, output: Path, on_notice: Callable[[str], None], *, done: int = 0) -> None:
    """Refuse a run that the disk has no room for, and say of one that it may have none for.

    Args:
        need: what `disk_need` says.
        done: bytes that an unfinished run wrote already.

    Raises:
        OutputError: with both numbers.
    """
    if need is None:
        return
    sure, most, free = max(0, need.sure - done), max(0, need.most - done), free_space(output)
    if sure > free:
        raise OutputError(
            f"too little space for the output (ENOSPC): it may need {spoken(sure)}, {spoken(free)} are free",
            where=str(output),
            hint="free some space, choose another place with -o, or name fewer inputs",
        )
    if most > free:
        on_notice(
            f"the disk may be too small: {spoken(sure)} to {spoken(most)} may be needed, if records name all pictures that lie"
            f" below --images and --url-map; {spoken(free)} are free"
        )


def spoken(num_bytes: int) -> str:
    """A number of bytes, for people."""
    size, units = float(num_bytes), iter(("bytes", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _of_pair(file: InputFile, *, keep_metadata: bool) -> int:
    """Bytes of the examples that a picture or label of a folder becomes part of: pages of a TIFF share its bytes out."""
    pages = 1
    if file.size > 0 and file.name.lower().endswith((".tif", ".tiff")):
        try:
            with open(file.path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                pages = tiff_pages(data)
        except (OSError, ValueError):
            pages = 1  # left out by name where it is read
    # The file as it came lies with its first page then, and each of the others alone.
    copies = 2 if keep_metadata and pages > 1 else 1
    return copies * max(0, file.size) + pages * _PICTURE_BYTES


def _text(kind: str, file: InputFile) -> tuple[int, int]:
    """Bytes of the records of a text or table, unpacked, and how many records there are, about."""
    if kind == "parquet":
        try:
            facts = pq.read_metadata(file.path)
        except (OSError, pa.ArrowInvalid):
            return file.size, 0  # refused, or told again, where it is read
        groups = [facts.row_group(number) for number in range(facts.num_row_groups)]
        return sum(group.total_byte_size for group in groups), facts.num_rows
    stream = Stream(file)
    try:
        size = file.size if stream.compression is None else file.size * _UNPACKS
        head = stream.read(_SAMPLE)
    except Damaged:
        return file.size, 0
    finally:
        stream.close()
    return size, size * head.count(b"\n") // max(1, len(head))


def _pictures(listing: Listing) -> Iterator[int]:
    """Sizes of the pictures, and of tars that may hold some, below the roots that records may lead into."""
    roots = listing.roots
    folders = roots.images or (roots.input_root,)
    own = {file.path for _, file in listing.inputs}
    for folder in _outermost((*folders, *roots.maps)):
        for path, size in _files(folder):
            suffix = path.rpartition(".")[2].lower()
            if (suffix in IMAGE_SUFFIXES or suffix == "tar") and path not in own:
                yield size


def _outermost(folders: Iterable[str]) -> list[str]:
    """The folders that lie in no other."""
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not any(folder.startswith(os.path.join(one, "")) for one in kept):
            kept.append(folder)
    return kept


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Path and size of the regular files below a folder; what cannot be looked into is met again where it is read."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            is_folder, found = entry.is_dir(follow_symlinks=False), entry.stat()
        except OSError:
            continue
        if is_folder:
            yield from _files(entry.path)
        elif stat.S_ISREG(found.st_mode):
            yield entry.path, found.st_size
