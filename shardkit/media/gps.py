"""Whether the metadata of a picture says where it was taken. Only the fact is noted; the place itself is not read."""

from __future__ import annotations

import struct
from typing import Any

from shardkit.media.orientation import legacy_exif, tiff_block

GPS_DIRECTORY = 0x8825
_LATITUDE = 2
_XMP_SIGNS = (b"GPSLatitude", b"GPSLongitude", b"GPSCoordinates")


def has_gps(info: dict[Any, Any], tags: Any = None) -> bool:
    """Whether a place stands in the EXIF or XMP of an opened picture.

    Args:
        info: what the decoder found beside the pixels.
        tags: the directory of a TIFF page, by tag.
    """
    if tags is not None and GPS_DIRECTORY in tags:
        return True
    xmp = info.get("xmp") or info.get("XML:com.adobe.xmp") or b""
    if any(sign in (xmp.encode() if isinstance(xmp, str) else bytes(xmp)) for sign in _XMP_SIGNS):
        return True
    exif = info.get("exif")
    return _exif_has_gps(exif if isinstance(exif, bytes) else legacy_exif(info))


def _exif_has_gps(exif: bytes) -> bool:
    """Whether the first directory of an EXIF block leads to a GPS directory with a latitude."""
    block, order = tiff_block(exif)
    if not block:
        return False
    start = next((value for tag, value in _entries(block, order, _offset(block, order, 4)) if tag == GPS_DIRECTORY), 0)
    return start > 0 and any(tag == _LATITUDE for tag, _ in _entries(block, order, start))


def _offset(block: bytes, order: str, at: int) -> int:
    return int(struct.unpack_from(order + "I", block, at)[0])


def _entries(block: bytes, order: str, start: int) -> list[tuple[int, int]]:
    """(tag, value field as a number) of a directory, as far as the block reaches."""
    if start + 2 > len(block):
        return []
    (count,) = struct.unpack_from(order + "H", block, start)
    stop = min(start + 2 + 12 * count, len(block) - 11)
    return [
        (int(struct.unpack_from(order + "H", block, at)[0]), _offset(block, order, at + 8))
        for at in range(start + 2, stop, 12)
    ]
