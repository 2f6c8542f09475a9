"""TIFF: entries that hold metadata leave their directories, and their values are blanked where they lie.

Everything in a TIFF points to places in the file, so nothing is moved and the size stays the same:

    directory   n entries                      n - k entries, then zeros
    elsewhere   pixels, kept values, "Artist"  pixels, kept values, zeros

Pages behind the first one stay here; of a file of many, `tiff_page.py` makes one of each before. A
place that a kept part of the file uses too is not blanked, and a file of which not every place is known (BigTIFF, no
byte counts, a tag told twice, directories that leave the file) stays as it is, and so do bytes that no directory points
to.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from shardkit.media.strip.parts import Place, Places, Stripped, left_alone
from shardkit.media.strip.tiff_tags import (
    BITS,
    COMPRESSION,
    HEIGHT,
    INTEGERS,
    ORIENTATION,
    PLACES,
    POINTERS,
    ROWS_PER_STRIP,
    SIZES,
    SUB_DIRECTORIES,
    TILE_HEIGHT,
    TILE_WIDTH,
    WIDTH,
    is_metadata,
    name_of,
)

_MAX_ENTRIES = 1_000_000
"""Of all directories together, which may lie over one another and so be more than the file has room for."""


class _StrangeError(Exception):
    """The file is not plain enough to be changed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    tag: int
    raw: bytes
    """The 12 bytes in the directory."""
    kind: int
    start: int
    stop: int
    """Where the value lies: in the entry itself if it has four bytes at most."""

    @property
    def is_inline(self) -> bool:
        return self.stop - self.start <= 4


@dataclass(kw_only=True, slots=True)
class _Plan:
    kept: list[Place] = field(default_factory=list)
    """Pixels and values that the picture needs."""
    directories: list[Place] = field(default_factory=list)
    blanked: list[Place] = field(default_factory=list)
    tables: list[tuple[int, bytes]] = field(default_factory=list)
    """Directories that lose entries: place, new bytes of the same length."""
    removed: Counter[str] = field(default_factory=Counter)


def strip_tiff(data: bytes | memoryview, orientation: int) -> Stripped:  # noqa: ARG001 - the tag stays where it is
    try:
        plan = _Reader(data).plan()
    except (_StrangeError, struct.error):
        return left_alone(data)
    kept, directories = Places(plan.kept), Places(plan.directories)
    overlap = any(first[1] > second[0] for first, second in pairwise(sorted(plan.directories)))
    if overlap or any(kept.meet(place) for place in plan.directories):
        return left_alone(data)
    if not plan.removed:
        return Stripped(data=bytes(data), removed={})
    out = bytearray(data)
    for start, stop in plan.blanked:
        if not kept.meet((start, stop)) and not directories.meet((start, stop)):
            out[start:stop] = bytes(stop - start)
    for at, table in plan.tables:
        out[at : at + len(table)] = table
    return Stripped(data=bytes(out), removed=dict(sorted(plan.removed.items())))


class _Reader:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._order = "<" if data[:2] == b"II" else ">"
        self._seen: set[int] = set()
        self._num_entries = 0
        self._num_value_bytes = 0

    def plan(self) -> _Plan:
        magic, first = struct.unpack_from(self._order + "HI", self._data, 2)
        if magic != 42:
            raise _StrangeError
        plan = _Plan(kept=[(0, 8)])
        todo = [first]
        while todo:
            at = todo.pop()
            if at and at not in self._seen:
                todo += self._plan_directory(at, plan)
        return plan

    def _plan_directory(self, at: int, plan: _Plan) -> list[int]:
        """Sort the parts of the directory at `at` into `plan`. Returns the directories that it leads to."""
        entries, end = self._directory(at)
        tags = {entry.tag: entry for entry in entries}
        if len(tags) < len(entries):
            raise _StrangeError
        (link,) = struct.unpack_from(self._order + "I", self._data, end)
        plan.directories.append((at, end + 4))
        stay = []
        for entry in entries:
            if not self._is_metadata(entry, tags):
                stay.append(entry.raw)
                if not entry.is_inline:
                    plan.kept.append((entry.start, entry.stop))
                continue
            name = name_of(entry.tag, entry.kind)
            plan.removed[name] += 12
            for start, stop in self._places_of(entry):
                plan.blanked.append((start, stop))
                plan.removed[name] += stop - start
        plan.kept += self._pixels(tags)
        num_gone = len(entries) - len(stay)
        if num_gone:
            head = struct.pack(self._order + "H", len(stay)) + b"".join(stay)
            plan.tables.append((at, head + struct.pack(self._order + "I", link) + bytes(12 * num_gone)))
        return [link, *(self._integers(tags[SUB_DIRECTORIES]) if SUB_DIRECTORIES in tags else ())]

    def _directory(self, at: int) -> tuple[list[_Entry], int]:
        """Entries of the directory at `at`, and the place behind the last one."""
        self._seen.add(at)
        (count,) = struct.unpack_from(self._order + "H", self._data, at)
        end = at + 2 + 12 * count
        self._num_entries += count + 1
        if end + 4 > len(self._data) or self._num_entries > _MAX_ENTRIES:
            raise _StrangeError
        entries = []
        for place in range(at + 2, end, 12):
            tag, kind, num_values, value = struct.unpack_from(self._order + "HHII", self._data, place)
            size = SIZES.get(kind, 1) * num_values
            start = place + 8 if size <= 4 else value
            # Values that are more than the file has room for: decoders skip some of them, each its own way.
            self._num_value_bytes += size if size > 4 else 0
            if start + size > len(self._data) or self._num_value_bytes > len(self._data):
                raise _StrangeError
            raw = bytes(self._data[place : place + 12])
            entries.append(_Entry(tag=tag, raw=raw, kind=kind, start=start, stop=start + size))
        return entries, end

    def _is_metadata(self, entry: _Entry, tags: dict[int, _Entry]) -> bool:
        told = tags.get(ORIENTATION)
        return is_metadata(
            entry.tag,
            memoryview(self._data)[entry.start : entry.stop],
            orientation_told=told is not None and told.kind in INTEGERS and told.start < told.stop,
        )

    def _places_of(self, entry: _Entry) -> list[Place]:
        """Where the value of a metadata entry lies outside its directory; for a pointer, all that it leads to."""
        places = [] if entry.is_inline else [(entry.start, entry.stop)]
        for at in self._integers(entry) if entry.tag in POINTERS else ():
            if at and at not in self._seen:
                entries, end = self._directory(at)
                places.append((at, end + 4))
                for nested in entries:
                    places += self._places_of(nested)
        return places

    def _pixels(self, tags: dict[int, _Entry]) -> list[Place]:
        """Where the compressed pixels lie. Raw ones are read by their geometry, so that counts even where it is the larger."""
        integers = [entry for entry in tags.values() if entry.kind in INTEGERS and entry.stop > entry.start]
        numbers = {entry.tag: self._integers(entry) for entry in integers}
        expected = 0
        if numbers.get(COMPRESSION, (1,))[0] == 1:
            width = numbers.get(TILE_WIDTH, numbers.get(WIDTH, (0,)))[0]
            height = numbers.get(HEIGHT, (0,))[0]
            rows = numbers.get(TILE_HEIGHT, (min(height, numbers.get(ROWS_PER_STRIP, (height,))[0]),))[0]
            expected = (width * sum(numbers.get(BITS, (1,))) + 7) // 8 * rows
        places = []
        for at_tag, size_tag in PLACES.items():
            starts, sizes = numbers.get(at_tag, ()), numbers.get(size_tag, ())
            if len(starts) != len(sizes) or 0 in sizes:
                raise _StrangeError
            places += [(start, start + max(size, expected)) for start, size in zip(starts, sizes, strict=True)]
        return places

    def _integers(self, entry: _Entry) -> tuple[int, ...]:
        if entry.kind not in INTEGERS:
            raise _StrangeError
        count = (entry.stop - entry.start) // SIZES[entry.kind]
        return struct.unpack_from(f"{self._order}{count}{INTEGERS[entry.kind]}", self._data, entry.start)
