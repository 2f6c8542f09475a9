"""Stripping: the original minus what is not picture. Containers are taken apart, compressed pixels are never touched.

What goes, by name: exif, xmp, iptc, comment, text, time, thumbnail, resolution, background, application, chunk, box, tag,
second_picture, junk (bytes between the parts of a file) and tail (bytes behind its end mark). What stays is the picture,
its frames, its colour (ICC, APP14, gAMA, tRNS and the like) and, where the picture is not upright as it lies, an EXIF
that holds the orientation and nothing else.

Two promises hold for every format: the stored file decodes to the very same pixels, and stripping it again changes
nothing. Where a file is too strange to be sure of the first one, its bytes stay.
"""

from __future__ import annotations

from collections.abc import Callable

from shardkit.media.formats import AVIF, BMP, GIF, HEIF, J2C, JP2, JPEG, PNG, PNM, TIFF, WEBP, Format
from shardkit.media.strip.bmp import strip_bmp
from shardkit.media.strip.gif import strip_gif
from shardkit.media.strip.iso import strip_iso
from shardkit.media.strip.jp2 import strip_jp2
from shardkit.media.strip.jpeg import strip_jpeg
from shardkit.media.strip.parts import Stripped
from shardkit.media.strip.png import strip_png
from shardkit.media.strip.pnm import strip_pnm
from shardkit.media.strip.tiff import strip_tiff
from shardkit.media.strip.webp import strip_webp

STRIPPERS: dict[Format, Callable[[bytes | memoryview, int], Stripped]] = {
    JPEG: strip_jpeg,
    PNG: strip_png,
    WEBP: strip_webp,
    GIF: strip_gif,
    BMP: strip_bmp,
    TIFF: strip_tiff,
    PNM: strip_pnm,
    JP2: strip_jp2,
    J2C: strip_jp2,
    AVIF: strip_iso,
    HEIF: strip_iso,
}
"""Format -> how its files are stripped."""


def strip(kind: Format, data: bytes | memoryview, orientation: int) -> Stripped:
    """`data`, a picture that decodes, without what is not picture.

    Args:
        kind: what `data` is.
        data: the file as it came.
        orientation: 1 to 8, as its metadata says; written back where it is not 1.
    """
    return STRIPPERS[kind](data, orientation)


__all__ = ["STRIPPERS", "Stripped", "strip"]
