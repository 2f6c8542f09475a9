"""How many pages a TIFF has, from its directories alone."""

from __future__ import annotations

import mmap
import struct

_MOST = 10_000


def tiff_pages(data: bytes | mmap.mmap) -> int:
    """Directories of the chain; 1 for what is no TIFF or breaks off, which the decoder will judge."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or len(data) < 16:
        return 1
    (version,) = struct.unpack_from(order + "H", data, 2)
    if version not in (42, 43):
        return 1
    # Classic TIFF counts with 2 bytes and points with 4; BigTIFF (43) with 8 and 8.
    count_form, entry, point_form, at = ("H", 12, "I", 4) if version == 42 else ("Q", 20, "Q", 8)
    count_size, point_size = struct.calcsize(count_form), struct.calcsize(point_form)
    seen: set[int] = set()
    (place,) = struct.unpack_from(order + point_form, data, at)
    while place and place not in seen and len(seen) < _MOST:
        if place + count_size > len(data):
            break
        seen.add(place)
        (count,) = struct.unpack_from(order + count_form, data, place)
        following = place + count_size + count * entry
        if following + point_size > len(data):
            break
        (place,) = struct.unpack_from(order + point_form, data, following)
    return max(1, len(seen))
