"""Finds a baseline JPEG whose data was cut and an end mark put behind the cut.

libjpeg fills such a picture up with mid grey and only warns, and Pillow drops the warning. So a picture that ends in
exactly this grey is decoded once more with bytes slipped in at the end of its data: a complete picture does not read
them, a cut one takes them for picture and comes out different. Few honest pictures end in this grey, so few pay twice.
A progressive file that lacks whole passes is only blurred; that is not found.
"""

from __future__ import annotations

import io

from PIL import Image, ImageFile

from shardkit.media.strip.jpeg import end_of_first_scan

_FILLED = (128, (128, 128, 128), (127, 127, 127, 127), (128, 128, 128, 127))
"""The last pixel of a filled up picture: grey, YCbCr or RGB, CMYK, YCCK."""

_BAIT = bytes(range(1, 255))


def ends_early(data: bytes | memoryview, image: ImageFile.ImageFile) -> bool:
    """Whether `image`, loaded from the JPEG `data`, was filled up by the decoder."""
    last = (image.width - 1, image.height - 1)
    if image.getpixel(last) not in _FILLED:
        return False
    end = end_of_first_scan(data)
    baited = Image.open(io.BytesIO(b"".join((data[:end], _BAIT, data[end:]))), formats=["JPEG"])
    return baited.tobytes() != image.tobytes()
