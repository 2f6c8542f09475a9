"""PNG and APNG: a list of chunks to keep; everything behind IEND goes.

Kept are what makes the picture (IHDR, PLTE, tRNS, IDAT), its frames (acTL, fcTL, fdAT), colour (gAMA, cHRM, sRGB, iCCP,
cICP, mDCV, cLLI, sBIT) and IEND. A chunk that is not listed is metadata, whatever it is called. Orientation stands in an
eXIf chunk behind IHDR.
"""

from __future__ import annotations

import re
import zlib

from shardkit.media.orientation import minimal_exif
from shardkit.media.strip.parts import Parts, Stripped

_SIGNATURE_SIZE = 8
_PICTURE = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT")
_COLOUR = (b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"mDCV", b"mDCv", b"cLLI", b"cLLi", b"sBIT")
_KEPT = frozenset((*_PICTURE, *_COLOUR))
_NAMES = {
    b"eXIf": "exif",
    b"tEXt": "text",
    b"zTXt": "text",
    b"iTXt": "text",
    b"tIME": "time",
    b"pHYs": "resolution",
    b"bKGD": "background",
}
_CHUNK_NAME = re.compile(rb"\w{4}")


def strip_png(data: bytes | memoryview, orientation: int) -> Stripped:
    parts = Parts(data)
    parts.keep(0, _SIGNATURE_SIZE)
    exif = _exif_chunk(orientation)
    has_exif = False
    at, name = _SIGNATURE_SIZE, b""
    while name != b"IEND" and at < len(data):
        start, name = at, bytes(data[at + 4 : at + 8])
        at = start + 12 + int.from_bytes(data[start : start + 4], "big")
        if at > len(data) and name in _KEPT:
            at = len(data)
        elif at > len(data) or not _CHUNK_NAME.fullmatch(name):
            # A decoder stops here, so what follows is no part of the picture.
            at = start
            break
        if name in _KEPT:
            parts.keep(start, at)
        elif name == b"eXIf" and not has_exif and data[start:at] == exif:
            has_exif = True
        else:
            is_xmp = data[start + 8 : start + 25] == b"XML:com.adobe.xmp"
            parts.drop("xmp" if is_xmp else _NAMES.get(name, "chunk"), at - start)
        if name == b"IHDR":
            parts.put(exif)
    parts.drop("tail", len(data) - at)
    return parts.join()


def _exif_chunk(orientation: int) -> bytes:
    if orientation == 1:
        return b""
    body = b"eXIf" + minimal_exif(orientation)
    return (len(body) - 4).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
