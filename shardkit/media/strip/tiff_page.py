"""One page of a TIFF of many, as a TIFF of its own: the same byte order, the same compressed bytes, other places.

    header | directory of the page | values too long for it | strips or tiles, in the order in which they lay

Only the page's directory is read, so a file is taken apart in time that grows with its bytes. Strips that touch or lie
over one another (shared tiles, the stream of an old JPEG with its strips) move together as one run: what a page takes is
never more than the file has. Tags stay or go as in a file of one page, and SubIFDs are second pictures. BigTIFF is cut
in the same way and stays BigTIFF.

What cannot be cut is a `StrangePageError`: places outside the file, no byte counts, types that nobody knows, a tag told
twice. `open_at` is the way out: the whole file, whose header leads to the page.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from mmap import mmap

from shardkit.media.strip.parts import Place, Stripped
from shardkit.media.strip.tiff_tags import (
    COMPRESSION,
    INTEGERS,
    ORIENTATION,
    PLACES,
    POINTERS,
    SIZES,
    SUB_DIRECTORIES,
    is_metadata,
    name_of,
)

Data = bytes | memoryview | mmap

_OLD_JPEG, _QUANTIZATION, _HUFFMAN = 6, 519, (520, 521)
_BIG_SIZES = {**SIZES, 16: 8, 17: 8, 18: 8}
_BIG_INTEGERS = {**INTEGERS, 16: "Q", 18: "Q"}
_NEW_KIND, _REDUCED_OR_MASK = 254, 0b101
"""NewSubfileType, and its bits of what is a smaller version of another picture, or the mask of one."""
_OLD_KIND, _REDUCED = 255, 2
_MOST_DEPTH = 2
"""A page leads to its EXIF, and that to the interoperability directory."""
_MOVED = (*PLACES, _QUANTIZATION, *_HUFFMAN)


class StrangePageError(Exception):
    """The page is not plain enough to be taken out of its file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Form:
    """How wide the numbers of a file are: classic TIFF counts with 2 bytes and points with 4, BigTIFF with 8 and 8."""

    order: str
    count: str
    word: str
    first_at: int
    """Where the header holds the place of the first directory."""
    place_type: int
    """LONG or LONG8."""

    @property
    def entry(self) -> str:
        return self.order + "HH" + 2 * self.word

    def number(self, form: str, data: Data, at: int) -> int:
        """Raises struct.error where the file ends before it."""
        return int(struct.unpack_from(self.order + form, data, at)[0])


def _form_of(data: Data) -> _Form:
    order = {b"II": "<", b"MM": ">"}[bytes(data[:2])]
    if struct.unpack_from(order + "H", data, 2)[0] == 43:
        return _Form(order=order, count="Q", word="Q", first_at=8, place_type=16)
    return _Form(order=order, count="H", word="I", first_at=4, place_type=4)


def page_places(data: Data) -> Iterator[int]:
    """Where the directories of the pages of a TIFF lie, in order. The chain ends where it leaves
    the file or bites its tail; a directory that the file cuts off is its last."""
    seen: set[int] = set()
    try:
        form = _form_of(data)
        place = form.number(form.word, data, form.first_at)
        while place and place not in seen:
            num_entries = form.number(form.count, data, place)
            seen.add(place)
            yield place
            end = place + struct.calcsize("<" + form.count) + num_entries * struct.calcsize(form.entry)
            place = form.number(form.word, data, end)
    except struct.error:
        return


def is_of_another(data: Data, place: int) -> bool:
    """Whether the directory at `place` says that it is no page but the preview, a level of the pyramid or the mask of one."""
    try:
        form = _form_of(data)
        size, cell = struct.calcsize(form.entry), struct.calcsize("<" + form.word)
        first = place + struct.calcsize("<" + form.count)
        # Entries lie in the order of their tags, and no tag is lower than these two.
        for at in range(first, first + min(2, form.number(form.count, data, place)) * size, size):
            tag, kind = form.number("H", data, at), form.number("H", data, at + 2)
            said = form.number(INTEGERS[kind], data, at + size - cell) if kind in INTEGERS else 0
            if (tag == _NEW_KIND and said & _REDUCED_OR_MASK) or (tag == _OLD_KIND and said == _REDUCED):
                return True
    except struct.error:
        return False
    return False


def open_at(data: bytes | memoryview, place: int) -> bytes:
    """The whole file, with the directory at `place` as its first one."""
    form, out = _form_of(data), bytearray(data)
    struct.pack_into(form.order + form.word, out, form.first_at, place)
    return bytes(out)


def cut_page(data: bytes | memoryview, place: int, *, keep_metadata: bool = False) -> Stripped:
    """The page whose directory lies at `place`, as a file. What goes beside its metadata counts as `second_picture`.

    Args:
        data: a TIFF.
        keep_metadata: every tag of the page stays, its EXIF and GPS directories too.

    Raises:
        StrangePageError: see above.
    """
    try:
        return _Cutter(data, keep_metadata=keep_metadata).cut(place)
    except struct.error as error:
        raise StrangePageError from error


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    tag: int
    kind: int
    num_values: int
    value: memoryview


class _Cutter:
    def __init__(self, data: bytes | memoryview, *, keep_metadata: bool) -> None:
        self._data = memoryview(data)
        self._form = _form_of(data)
        self._keep_metadata = keep_metadata
        self._removed: Counter[str] = Counter()

    def cut(self, place: int) -> Stripped:
        entries = self._entries(place)
        runs = _joined(self._pixels(entries))
        head_size = 2 * self._form.first_at
        # Where the pixels begin is known by the length of what comes before, which no place in it changes.
        begin = head_size + len(self._block(entries, head_size, lambda _: 0))
        starts, moved_to, end = [start for start, _ in runs], [], begin
        for start, stop in runs:
            moved_to.append(_even(end))
            end = moved_to[-1] + stop - start

        def moved(at: int) -> int:
            run = bisect_right(starts, at) - 1
            return moved_to[run] + at - starts[run]

        out = bytearray(self._header(head_size) + self._block(entries, head_size, moved))
        for to, (start, stop) in zip(moved_to, runs, strict=True):
            out += bytes(to - len(out))
            out += self._data[start:stop]
        others = len(self._data) - len(out) - sum(self._removed.values())
        self._removed["second_picture"] = max(0, others)
        return Stripped(data=bytes(out), removed=dict(sorted(self._removed.items())))

    def _header(self, first: int) -> bytes:
        form, mark = self._form, bytes(self._data[:2])
        if form.word == "Q":
            return mark + struct.pack(form.order + "HHHQ", 43, 8, 0, first)
        return mark + struct.pack(form.order + "HI", 42, first)

    def _entries(self, place: int) -> list[_Entry]:
        """What stays of the directory at `place`, in its order. Metadata that goes is counted and not looked at."""
        form, found = self._form, []
        size, cell = struct.calcsize(form.entry), struct.calcsize("<" + form.word)
        first = place + struct.calcsize("<" + form.count)
        end = first + form.number(form.count, self._data, place) * size
        if end + cell > len(self._data):
            raise StrangePageError
        num_value_bytes = 0
        for at in range(first, end, size):
            tag, kind, num_values, value_at = struct.unpack_from(form.entry, self._data, at)
            num_bytes = _BIG_SIZES.get(kind, 0) * num_values
            start = at + size - cell if num_bytes <= cell else value_at
            value = self._data[start : start + num_bytes]
            num_value_bytes += len(value)
            if num_value_bytes > len(self._data):
                raise StrangePageError
            found.append(_Entry(tag=tag, kind=kind, num_values=num_values, value=value))
        told = any(e.tag == ORIENTATION and e.kind in _BIG_INTEGERS and e.num_values for e in found)
        stay = []
        for entry in found:
            if entry.tag == SUB_DIRECTORIES:
                continue
            if not self._keep_metadata and is_metadata(entry.tag, entry.value, orientation_told=told):
                self._removed[name_of(entry.tag, entry.kind)] += size + (
                    len(entry.value) if len(entry.value) > cell else 0
                )
                continue
            if len(entry.value) != _BIG_SIZES.get(entry.kind, -1) * entry.num_values:
                raise StrangePageError
            stay.append(entry)
        if len({entry.tag for entry in stay}) < len(stay):
            raise StrangePageError
        return stay

    def _pixels(self, entries: list[_Entry]) -> list[Place]:
        """Where the compressed pixels lie, and the tables that an old JPEG keeps apart from them."""
        numbers = {e.tag: self._integers(e) for e in entries if e.kind in _BIG_INTEGERS}
        places = []
        for at_tag, size_tag in PLACES.items():
            starts, sizes = numbers.get(at_tag, ()), numbers.get(size_tag, ())
            if len(starts) != len(sizes) or 0 in sizes:
                raise StrangePageError
            places += [(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        if numbers.get(COMPRESSION) == (_OLD_JPEG,):
            places += [(start, start + 64) for start in numbers.get(_QUANTIZATION, ())]
            for start in (start for tag in _HUFFMAN for start in numbers.get(tag, ())):
                places.append((start, start + 16 + sum(self._data[start : start + 16])))
        if not places or any(stop > len(self._data) for _, stop in places):
            raise StrangePageError
        return places

    def _block(self, entries: list[_Entry], at: int, moved: Callable[[int], int], depth: int = 0) -> bytes:
        """A directory that will lie at `at`, with the values and the directories that it points to."""
        form = self._form
        cell = struct.calcsize("<" + form.word)
        spill_at = at + struct.calcsize(form.order + form.count) + len(entries) * struct.calcsize(form.entry) + cell
        table, spill = bytearray(struct.pack(form.order + form.count, len(entries))), bytearray()
        for entry in entries:
            kind, num_values, value = entry.kind, entry.num_values, bytes(entry.value)
            if depth == 0 and entry.tag in _MOVED and self._is_place(entry, entries):
                kind, places = form.place_type, [moved(place) for place in self._integers(entry)]
                value = struct.pack(f"{form.order}{num_values}{form.word}", *places)
            elif entry.tag in POINTERS:
                kind, num_values, to = form.place_type, 1, _even(spill_at + len(spill))
                if entry.num_values != 1 or depth == _MOST_DEPTH:
                    raise StrangePageError
                nested = self._block(self._entries(*self._integers(entry)), to, moved, depth + 1)
                spill += bytes(to - spill_at - len(spill)) + nested
                value = struct.pack(form.order + form.word, to)
            if len(value) > cell:
                to = _even(spill_at + len(spill))
                spill += bytes(to - spill_at - len(spill)) + value
                value = struct.pack(form.order + form.word, to)
            table += struct.pack(form.order + "HH" + form.word, entry.tag, kind, num_values) + value.ljust(cell, b"\0")
        return bytes(table + bytes(cell) + spill)

    def _is_place(self, entry: _Entry, entries: list[_Entry]) -> bool:
        """Whether `_pixels` has looked for what the entry points to: the tables of an old JPEG only where it is one."""
        if entry.tag in PLACES:
            return True
        return any(e.tag == COMPRESSION and self._integers(e) == (_OLD_JPEG,) for e in entries)

    def _integers(self, entry: _Entry) -> tuple[int, ...]:
        if entry.kind not in _BIG_INTEGERS:
            raise StrangePageError
        return struct.unpack(f"{self._form.order}{entry.num_values}{_BIG_INTEGERS[entry.kind]}", entry.value)


def _joined(places: list[Place]) -> list[Place]:
    """Places that touch or lie over one another made one."""
    runs: list[Place] = []
    for start, stop in sorted(places):
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((start, stop))
    return runs


def _even(at: int) -> int:
    return at + at % 2
