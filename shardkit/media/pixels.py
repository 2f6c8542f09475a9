"""The digest of what is seen: equal for a PNG and a BMP of the same picture, whatever else the files hold."""

from __future__ import annotations

import struct

import xxhash
from PIL import Image

_CHUNK = 1 << 20
"""Bytes that Pillow packs at once. `tobytes` packs 64 KiB and joins them, which costs as much as the digest again."""


def pixel_id(image: Image.Image) -> str:
    """xxh3-128, 32 hex digits, of width and height (two little-endian 32-bit integers) and the RGB bytes, row by row."""
    assert image.mode == "RGB", image.mode
    digest = xxhash.xxh3_128(struct.pack("<II", image.width, image.height))
    image.load()
    encoder = Image._getencoder("RGB", "raw", "RGB")
    encoder.setimage(image.im, (0, 0, *image.size))
    status = 0
    while status == 0:  # 1 behind the last row
        _, status, packed = encoder.encode(max(_CHUNK, 4 * image.width))
        digest.update(packed)
    assert status == 1, status
    return digest.hexdigest()
