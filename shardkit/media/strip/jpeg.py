"""JPEG: marker segments before the first scan are kept or dropped one by one, everything behind the end mark goes.

    SOI  [JFIF]  [EXIF with orientation only]  [ICC, Adobe]  tables, frame header  SOS  data  [more scans]  EOI

From the first scan on the bytes stay as they are: a damaged stream may hold what looks like a segment, and taking it out
would change what a decoder makes of the rest.
"""

from __future__ import annotations

import re

from shardkit.media.orientation import minimal_exif
from shardkit.media.strip.parts import Parts, Stripped

_EOI, _SOS = 0xD9, 0xDA
_APP0, _APP1, _APP2, _APP13, _APP14, _APP15, _COM = 0xE0, 0xE1, 0xE2, 0xED, 0xEE, 0xEF, 0xFE
_ALONE = (0x01, *range(0xD0, 0xD9))
"""Markers without a length: TEM, RST0 to RST7, SOI."""

_KNOWN = (
    (_APP0, b"JFIF\0", ""),
    (_APP0, b"JFXX\0", "thumbnail"),
    (_APP1, b"Exif\0", "exif"),
    (_APP1, b"http://ns.adobe.com/xap/", "xmp"),
    (_APP1, b"http://ns.adobe.com/xmp/", "xmp"),
    (_APP2, b"ICC_PROFILE\0", ""),
    (_APP2, b"MPF\0", "second_picture"),
    (_APP13, b"", "iptc"),
    (_APP14, b"Adobe", ""),
    (_COM, b"", "comment"),
)
"""Marker and beginning of a segment -> the name under which it goes, "" for one that stays. Other APPn are `application`."""

_MARKER = re.compile(rb"\xff[^\x00\xff]", re.DOTALL)
_SCAN_END = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)
_JFIF_SIZE = 18
"""Bytes of a JFIF segment without a thumbnail; its last two are the thumbnail's width and height."""


def strip_jpeg(data: bytes | memoryview, orientation: int) -> Stripped:
    parts = Parts(data)
    segments = _segments(data, parts)
    exif = _exif_segment(orientation)
    place = 1 if _is_jfif(data, *segments[0]) else 0
    has_exif = has_index = False
    parts.keep(0, 2)
    for number, (code, start, stop) in enumerate(segments):
        if number == place:
            parts.put(exif)
        name = _unwanted(code, bytes(data[start + 4 : min(stop, start + 40)]))
        if name == "exif" and not has_exif and data[start:stop] == exif:
            has_exif = True
        elif name:
            parts.drop(name, stop - start)
            has_index |= name == "second_picture"
        elif _is_jfif(data, code, start, stop) and stop - start > _JFIF_SIZE:
            parts.put(b"\xff\xe0\0\x10" + bytes(data[start + 4 : start + 16]) + b"\0\0")
            parts.drop("thumbnail", stop - start - _JFIF_SIZE)
        else:
            parts.keep(start, stop)
    scans = segments[-1][2]
    end = _end_of_picture(data, scans)
    parts.keep(scans, end)
    rest = bytes(data[end : end + 64]).lstrip(b"\0")
    parts.drop("second_picture" if has_index or rest.startswith(b"\xff\xd8\xff") else "tail", len(data) - end)
    return parts.join()


def end_of_first_scan(data: bytes | memoryview) -> int:
    """Where the data of the first scan stops: the place of the marker behind it, or the end of the file."""
    found = _SCAN_END.search(data, _segments(data, Parts(data))[-1][2])
    return found.start() if found else len(data)


def _segments(data: bytes | memoryview, parts: Parts) -> list[tuple[int, int, int]]:
    """Code, start and stop of each segment up to the first scan's header, or to where no segment fits; what lies between is junk."""
    segments = []
    at = 2
    while found := _MARKER.search(data, at):
        start, code = found.start(), data[found.start() + 1]
        parts.drop("junk", start - at)
        at = start + 2
        if code in _ALONE:
            parts.drop("junk", 2)
            continue
        at += max(2, int.from_bytes(data[at : at + 2], "big"))
        if at > len(data) or code == _EOI:
            at = len(data)
        segments.append((code, start, at))
        if code == _SOS:
            break
    return segments or [(_EOI, 2, len(data))]


def _unwanted(code: int, lead: bytes) -> str:
    """The name under which a segment goes, or "" for one that stays. `lead` is the beginning of its body."""
    for known, beginning, name in _KNOWN:
        if code == known and lead.startswith(beginning):
            return name
    return "application" if _APP0 <= code <= _APP15 else ""


def _end_of_picture(data: bytes | memoryview, at: int) -> int:
    """The place behind the end mark; the end of the file where there is none."""
    while found := _SCAN_END.search(data, at):
        at = found.end()
        code = data[at - 1]
        if code == _EOI:
            return at
        if code not in _ALONE:
            at += max(2, int.from_bytes(data[at : at + 2], "big"))
    return len(data)


def _is_jfif(data: bytes | memoryview, code: int, start: int, stop: int) -> bool:
    return code == _APP0 and stop - start >= _JFIF_SIZE and data[start + 4 : start + 9] == b"JFIF\0"


def _exif_segment(orientation: int) -> bytes:
    if orientation == 1:
        return b""
    body = b"Exif\0\0" + minimal_exif(orientation)
    return b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body
