"""Plain JPEGs by simplejpeg, in about half of Pillow's time and into memory that is used again.

A JPEG is plain where nothing but its scan decides the canonical pixels: 8 bits, grey or YCbCr, no colour profile, no
orientation. At full scale simplejpeg then gives the very pixels of `decode_rgb`: both are libjpeg-turbo. Whether this
holds for the two builds that are installed is tried once a process. What is not plain, what simplejpeg refuses or warns
of, and what may have been cut goes to Pillow, which has the last word.

At a smaller scale the pixels are others, so whoever asks for it has to say so in what it records.
"""

from __future__ import annotations

import functools
import io
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt
from PIL import Image

from shardkit.media.limits import PILLOW_MAX_PIXELS
from shardkit.media.orientation import exif_orientation

Pixels = npt.NDArray[np.uint8]

FRAMES = (0xC0, 0xC1, 0xC2)
"""Baseline, extended and progressive frames, Huffman coded."""
_SOS, _EXIF, _ICC, _ADOBE = 0xDA, 0xE1, 0xE2, 0xEE
_TELLING = (_EXIF, _ICC, _ADOBE)
_YCBCR = 1
_COMPONENTS = ((1,), (1, 2, 3), (0, 1, 2))
SCALES = (1, 2, 4, 8)
"""How much smaller a picture can be decoded. The scales between them are no faster, and not as near to an average."""
_FILLED = b"\x80" * 3
"""Grey of what libjpeg fills up; see `shardkit.media.premature`."""


class Scratch:
    """Memory for one picture at a time, kept for the next one; for one thread."""

    def __init__(self) -> None:
        self._bytes: Pixels = np.empty(0, np.uint8)

    def get(self, size: int) -> Pixels:
        """At least `size` bytes, with anything in them."""
        if len(self._bytes) < size:
            self._bytes = np.empty(size + size // 4, np.uint8)
        return self._bytes


def installed() -> bool:
    """Whether simplejpeg is there (pip install 'shardkit[turbo]')."""
    return find_spec("simplejpeg") is not None


def version() -> str:
    return metadata.version("simplejpeg")


def plain_size(data: bytes | memoryview) -> tuple[int, int] | None:
    """Height and width of a plain JPEG; None for what is none."""
    view = memoryview(data).cast("B")
    if bytes(view[:2]) != b"\xff\xd8":
        return None
    at, transform, end = 2, _YCBCR, len(view)
    size: tuple[int, int] | None = None
    components: tuple[int, ...] = ()
    while at + 4 <= end and view[at] == 0xFF:
        marker = view[at + 1]
        behind = at + 2 + (view[at + 2] << 8 | view[at + 3])
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or not at + 4 <= behind <= end:
            return None
        if marker == _SOS:
            break
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            body = bytes(view[at + 4 : behind])
            if marker not in FRAMES or size is not None or len(body) < 6 or body[0] != 8:
                return None
            size = (body[1] << 8 | body[2], body[3] << 8 | body[4])
            components = tuple(body[6 : 6 + 3 * body[5] : 3])
        elif marker in _TELLING:
            body = bytes(view[at + 4 : behind])
            if marker == _ICC and body[:12] == b"ICC_PROFILE\0":
                return None
            if marker == _EXIF and not _upright(body):
                return None
            if marker == _ADOBE and body[:5] == b"Adobe":
                transform = body[11] if len(body) > 11 else 0
        at = behind
    else:
        return None
    if size is None or 0 in size or components not in _COMPONENTS or size[0] * size[1] > PILLOW_MAX_PIXELS:
        return None
    return None if len(components) == 3 and transform != _YCBCR else size


def _upright(segment: bytes) -> bool:
    """Whether an APP1 segment is an EXIF block that turns nothing."""
    return segment.startswith(b"Exif\0\0") and exif_orientation(segment) in (None, 1)


def decode_plain(data: bytes | memoryview, size: tuple[int, int], scratch: Scratch, *, scale: int = 1) -> Pixels | None:
    """[H, W, 3] of a plain JPEG of that size, in the memory of `scratch`: valid until that is used again.

    Args:
        scale: one of SCALES; the sides become a `scale`th, rounded up.

    Returns:
        None where it is for Pillow to judge.
    """
    import simplejpeg

    height, width = (-(-side // scale) for side in size)
    options = {"min_height": height, "min_width": width, "min_factor": scale} if scale > 1 else {}
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            memoryview(data).cast("B"),
            colorspace="RGB",
            fastdct=False,
            fastupsample=False,
            buffer=scratch.get(height * width * 3),
            **options,
        )
    except (ValueError, RuntimeError):
        return None
    if pixels.shape[:2] != (height, width):
        return None
    return None if pixels[-1, -1].tobytes() == _FILLED else pixels


@functools.cache
def is_exact() -> bool:
    """Whether simplejpeg is there and gives Pillow's pixels at full scale."""
    if not installed():
        return False
    random, scratch = np.random.default_rng(0), Scratch()
    smooth = Image.fromarray(random.integers(0, 256, (7, 9, 3), np.uint8)).resize((101, 67), Image.Resampling.BICUBIC)
    for mode, sampling, progressive in (("RGB", 0, False), ("RGB", 1, False), ("RGB", 2, True), ("L", 0, False)):
        file = io.BytesIO()
        smooth.convert(mode).save(file, "JPEG", quality=80, subsampling=sampling, progressive=progressive)
        data = file.getvalue()
        found = decode_plain(data, (67, 101), scratch)
        with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
            if found is None or not np.array_equal(found, np.asarray(image.convert("RGB"))):
                return False
    return True
