"""Which way up a picture is: reading the EXIF orientation, writing the smallest EXIF that holds it, turning by it."""

from __future__ import annotations

import re
import struct
from typing import Any

from PIL import Image, ImageFile

from shardkit.media.formats import AVIF, JPEG, PNG, WEBP, Format

_TAG = 0x0112
_FORMS = {1: "B", 3: "H", 4: "I"}
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def minimal_exif(orientation: int) -> bytes:
    """A TIFF block whose only tag is the orientation: the one form that stripping writes, 26 bytes."""
    return b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, _TAG, 3, 1, orientation, 0, 0)


def orientation_of(kind: Format, info: dict[Any, Any]) -> int:
    """1 to 8, from the metadata of an opened picture; 1 for what is no orientation.

    EXIF comes first, XMP where EXIF says nothing. An AVIF is turned by properties that its decoder hands over as EXIF. TIFF
    pictures are turned by their decoder (`turned_by_decoder`); in a HEIC turning is a part of the coding, which every
    decoder does and no other program sees the picture without; other formats have no orientation.
    """
    if kind not in (JPEG, PNG, WEBP, AVIF):
        return 1
    exif, xmp = info.get("exif"), info.get("xmp")
    found = exif_orientation(exif if isinstance(exif, bytes) else legacy_exif(info))
    if found is None and kind is not AVIF and isinstance(xmp, bytes):
        match = re.search(rb'tiff:Orientation(?:="|>)([0-9])', xmp)
        found = int(match[1]) if match else None
    return found if found in _TURNS else 1


def turned_by_decoder(source: ImageFile.ImageFile) -> int:
    """1 to 8, by what Pillow will turn the opened page of a TIFF while it loads it."""
    found = source.getexif().get(_TAG)
    return found if isinstance(found, int) and found in _TURNS else 1


def exif_orientation(exif: bytes) -> int | None:
    """The value of the orientation tag in an EXIF block, with or without its `Exif` lead; None where it is absent or unreadable."""
    exif, order = tiff_block(exif)
    if not exif:
        return None
    (start,) = struct.unpack_from(order + "I", exif, 4)
    if start + 2 > len(exif):
        return None
    (count,) = struct.unpack_from(order + "H", exif, start)
    found = None
    for at in range(start + 2, min(start + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind, num_values = struct.unpack_from(order + "HHI", exif, at)
        if tag == _TAG and kind in _FORMS and num_values == 1:
            (found,) = struct.unpack_from(order + _FORMS[kind], exif, at + 8)
    return found


def tiff_block(exif: bytes) -> tuple[bytes, str]:
    """The TIFF block of an EXIF block and the byte order of its numbers; b"" where it is none."""
    while exif.startswith(b"Exif\0\0"):
        exif = exif[6:]
    if exif[:4] not in (b"II*\0", b"MM\0*") or len(exif) < 10:
        return b"", ">"
    return exif, "<" if exif[:2] == b"II" else ">"


def legacy_exif(info: dict[Any, Any]) -> bytes:
    """The EXIF block that ImageMagick writes into a text of a PNG; b"" where there is none."""
    legacy = info.get("Raw profile type exif")
    return _from_hex_lines(legacy) if isinstance(legacy, str) else b""


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """`image` turned so that its top is at the top."""
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def _from_hex_lines(text: str) -> bytes:
    """An EXIF block as ImageMagick writes it into a PNG text: three lines of heading, then hexadecimal."""
    try:
        return bytes.fromhex("".join(text.split("\n")[3:]))
    except ValueError:
        return b""
