"""The size of a PNG from its chunks, where these say all of it: a hundredth of what decoding it takes.

Their checksums are compared on the way, so a file that was cut or changed since it was written is left to the decoder, and
so is all that would turn the picture or that a decoder may refuse.
"""

from __future__ import annotations

import zlib

from shardkit.media.limits import PILLOW_MAX_PIXELS

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Kind of colour -> bits that it may have."""
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_TURNING = (b"exif", b"xmp", b"xml:com.adobe.xmp", b"raw profile type")
"""How the names of texts begin that may hold an orientation."""


def plain_png_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """Height and width of a still, upright PNG whose chunks are whole; None for anything else."""
    view = memoryview(data).cast("B")
    if bytes(view[:8]) != _SIGNATURE:
        return None
    at, name, size, has_pixels = 8, b"", None, False
    while name != b"IEND":
        name, end = bytes(view[at + 4 : at + 8]), at + 12 + int.from_bytes(view[at : at + 4], "big")
        if at + 12 > len(view) or end > len(view):
            return None
        body = view[at + 8 : end - 4]
        if zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(view[end - 4 : end], "big"):
            return None
        if size is None:
            size = _size(body) if name == b"IHDR" else None
            if size is None:
                return None
        if name in (b"eXIf", b"acTL") or (name in _TEXTS and bytes(body[:20]).lower().startswith(_TURNING)):
            return None
        has_pixels |= name == b"IDAT"
        at = end
    return size if has_pixels else None


def _size(header: memoryview) -> tuple[int, int] | None:
    """Of an IHDR chunk; None where a decoder may refuse it."""
    if len(header) != 13:
        return None
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, colour, compression, filtering, interlacing = header[8:]
    known = depth in _DEPTHS.get(colour, ()) and compression == filtering == 0 and interlacing <= 1
    return (height, width) if known and 0 < width * height <= PILLOW_MAX_PIXELS else None
