"""The digest of what is seen: equal for a PNG and a BMP of the same picture, whatever else the files hold."""

from __future__ import annotations

import struct

import xxhash
from PIL import Image


def pixel_id(image: Image.Image) -> str:
    """xxh3-128, 32 hex digits, of width and height (two little-endian 32-bit integers) and the RGB bytes, row by row."""
    assert image.mode == "RGB", image.mode
    digest = xxhash.xxh3_128(struct.pack("<II", image.width, image.height))
    digest.update(image.tobytes())
    return digest.hexdigest()
