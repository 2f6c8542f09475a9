"""A picture as somebody else would have kept it: decoded and encoded again, for tests of what finds it nevertheless."""

from __future__ import annotations

import io

from shardkit.media.decode import decode_rgb

QUALITY = 85
LEAST_SIDE = 64
"""Pixels; under this a lossy copy is another picture, and it is kept without loss."""


def resave(data: bytes, frame: int = 0) -> bytes:
    """`data` as a JPEG of usual quality, or a small picture as PNG.

    Raises:
        BadMedia: if the bytes do not decode.
    """
    image = decode_rgb(data, frame)
    out = io.BytesIO()
    if min(image.size) < LEAST_SIDE:
        image.save(out, "PNG")
    else:
        image.save(out, "JPEG", quality=QUALITY)
    return out.getvalue()
