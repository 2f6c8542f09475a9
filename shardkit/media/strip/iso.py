"""AVIF and HEIC: metadata items lose their type and their bytes are blanked where they lie.

The file is a tree of boxes; `iloc` says at which place of the file the bytes of each item lie, so nothing is moved:

    iinf   1 av01   2 Exif   3 mime (XMP)        1 av01   2 skip   3 skip
    mdat   pixels   GPS ...  <x:xmpmeta ...      pixels   zeros    zeros

Decoders pass over items of a type they do not know. Which way up the picture is stands in properties of its own. A file
whose items are not all found, or claim more bytes than it has, stays as it is, and so do items that share their bytes with others.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

from shardkit.media.strip.parts import Place, Places, Stripped, left_alone

_NAMES = {b"Exif": "exif", b"mime": "xmp"}
_BLANK_TYPE = b"skip"
_IN_FILE, _IN_IDAT = 0, 1
_MAX_PAYLOADS = 100
_MAX_EXTENTS = 100_000


def strip_iso(data: bytes | memoryview, orientation: int) -> Stripped:  # noqa: ARG001 - stands in the file's own properties
    try:
        types, extents, payloads = _items(data)
    except (struct.error, IndexError, KeyError):
        return left_alone(data)
    metadata = {item: at for item, at in types.items() if bytes(data[at : at + 4]) in _NAMES}
    needed = Places([place for item, places in extents.items() if item not in metadata for place in places])
    out = bytearray(data)
    removed: Counter[str] = Counter()
    is_sure = True
    for item, at in metadata.items():
        places = extents.get(item, [])
        if any(needed.meet(place) or not _is_inside(place, payloads) for place in places):
            is_sure = False
            continue
        removed[_NAMES[bytes(data[at : at + 4])]] += sum(stop - start for start, stop in places)
        out[at : at + 4] = _BLANK_TYPE
        for start, stop in places:
            out[start:stop] = bytes(stop - start)
    return Stripped(data=bytes(out), removed=dict(sorted(removed.items())), is_sure=is_sure)


def _is_inside(place: Place, payloads: list[Place]) -> bool:
    return any(start <= place[0] and place[1] <= stop for start, stop in payloads)


def _items(data: bytes | memoryview) -> tuple[dict[int, int], dict[int, list[Place]], list[Place]]:
    """Item -> where its four letters of type lie; item -> where its bytes lie; boxes that hold nothing but such bytes."""
    boxes = list(_boxes(data, 0, len(data)))
    meta = dict(boxes)[b"meta"]
    parts = dict(_boxes(data, meta[0] + 4, meta[1]))
    idat = parts.get(b"idat", (0, 0))
    payloads = [idat, *(place for name, place in boxes if name == b"mdat")]
    if len(payloads) > _MAX_PAYLOADS:
        raise IndexError(len(payloads))
    return _types(data, parts[b"iinf"]), _extents(data, parts[b"iloc"], idat[0]), payloads


def _boxes(data: bytes | memoryview, at: int, end: int) -> Iterator[tuple[bytes, Place]]:
    """Name of each box and where its content lies."""
    while at + 8 <= end:
        size, name = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, at + 8)
            head = 16
        stop = at + size if size else end
        if stop > end or stop < at + head:
            raise IndexError(at)
        yield name, (at + head, stop)
        at = stop


def _types(data: bytes | memoryview, iinf: Place) -> dict[int, int]:
    start, stop = iinf
    types = {}
    for name, (at, _) in _boxes(data, start + (6 if data[start] == 0 else 8), stop):
        version = data[at]
        if name != b"infe" or version < 2:
            raise KeyError(name)
        wide = version > 2
        (item,) = struct.unpack_from(">I" if wide else ">H", data, at + 4)
        types[item] = at + (10 if wide else 8)
    return types


def _extents(data: bytes | memoryview, iloc: Place, idat: int) -> dict[int, list[Place]]:
    at, _ = iloc
    version = data[at]
    offset_size, length_size = data[at + 4] >> 4, data[at + 4] & 15
    base_size, index_size = data[at + 5] >> 4, data[at + 5] & 15 if version else 0
    wide = 4 if version == 2 else 2
    at += 6
    num_items, at = _number(data, at, wide)
    extents: dict[int, list[Place]] = {}
    total = num_extents = 0
    for _ in range(num_items):
        item, at = _number(data, at, wide)
        method = _IN_FILE
        if version:
            method, at = _number(data, at, 2)
        base, at = _number(data, at + 2, base_size)
        count, at = _number(data, at, 2)
        if method > _IN_IDAT:
            raise KeyError(method)
        for _ in range(count):
            offset, at = _number(data, at + index_size, offset_size)
            length, at = _number(data, at, length_size)
            start = base + offset + (idat if method == _IN_IDAT else 0)
            total += length
            num_extents += 1
            if start + length > len(data) or total > len(data) or num_extents > _MAX_EXTENTS:
                raise IndexError(start)
            extents.setdefault(item, []).append((start, start + length))
    return extents


def _number(data: bytes | memoryview, at: int, size: int) -> tuple[int, int]:
    """The big-endian number of `size` bytes at `at`, and the place behind it."""
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "big"), at + size
