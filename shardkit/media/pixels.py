"""The digest of what is seen: equal for a PNG and a BMP of the same picture, whatever else the files hold."""

from __future__ import annotations

import struct

import xxhash
from PIL import Image

_BAND_PIXELS = 2**19
"""Larger pictures are read in bands: six times as fast as one fresh copy of 12 million pixels, and in flat memory."""


def pixel_id(image: Image.Image) -> str:
    """xxh3-128, 32 hex digits, of width and height (two little-endian 32-bit integers) and the RGB bytes, row by row."""
    assert image.mode == "RGB", image.mode
    digest = xxhash.xxh3_128(struct.pack("<II", image.width, image.height))
    rows = max(1, _BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        band = (0, top, image.width, min(image.height, top + rows))
        digest.update((image if rows >= image.height else image.crop(band)).tobytes())
    return digest.hexdigest()
