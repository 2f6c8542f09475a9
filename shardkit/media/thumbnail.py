"""A small JPEG of a picture, to be looked at by people; nothing is computed from it."""

from __future__ import annotations

import io

from PIL import Image

from shardkit.media.decode import decode_rgb
from shardkit.media.shrink import smaller

_QUALITY = 80


def thumbnail(data: bytes | memoryview, side: int) -> bytes:
    """A JPEG with no side over `side` pixels.

    Raises:
        BadMedia: if the bytes do not decode.
    """
    image = decode_rgb(data)
    size = smaller(image.width, image.height, side)
    out = io.BytesIO()
    image.resize(size, Image.Resampling.BOX, reducing_gap=2.0).save(out, "JPEG", quality=_QUALITY)
    return out.getvalue()
