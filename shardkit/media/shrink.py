"""A smaller file of a picture: the one place where pixels are encoded again, and only where a user asks for it.

    stored bytes -> canonical pixels (upright, sRGB, alpha on white) -> smaller, aspect kept -> a file, as ENCODERS says

The same bytes, sizes and libraries give the same file. Pixels come from Pillow's fixed-point arithmetic (Lanczos, each
pixel an average over all that it covers); `encoders` has what else the bytes depend on.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, features

from shardkit.media.decode import ANYTHING, decode
from shardkit.media.formats import BMP, GIF, JPEG, PNG, PNM, TIFF, WEBP, Format

SHRINKER = "pillow-lanczos/1"
"""Name and version of the rules here. Files that come out otherwise are a new version."""
MIN_QUALITY, MAX_QUALITY = 1, 95
"""Over 95 a JPEG grows and looks no better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shrunk:
    data: bytes
    width: int
    """Pixels, as of `height`; upright."""
    height: int


def smaller(width: int, height: int, max_side: int) -> tuple[int, int]:
    """The size, in pixels, with `max_side` as its longer side and the aspect of `width` x `height`, rounded half up and
    never 0; the size itself where it is small enough."""
    longer = max(width, height)
    if longer <= max_side:
        return width, height
    one, two = (max(1, (2 * side * max_side + longer) // (2 * longer)) for side in (width, height))
    return one, two


def shrink(data: bytes | memoryview, *, max_side: int, quality: int) -> Shrunk | None:
    """A file of the picture in stored bytes with no side over `max_side` pixels; None where it has none already.

    Args:
        quality: of lossy files, MIN_QUALITY to MAX_QUALITY.

    Raises:
        BadMedia: if the bytes do not decode.
    """
    picture = decode(data, frame=0, limits=ANYTHING)
    image = picture.image
    size = smaller(image.width, image.height, max_side)
    if size == image.size:
        return None
    image = image.resize(size, Image.Resampling.LANCZOS)
    if _is_grey(image):
        image = image.getchannel(0)
    return Shrunk(data=_encoder(picture.kind, data)(image, quality), width=size[0], height=size[1])


def encoders() -> str:
    """Versions of the libraries that files of `shrink` depend on: with others their bytes may differ."""
    names = ("pil", "libjpeg_turbo", "zlib", "webp")
    return f"{SHRINKER} " + " ".join(f"{name}={features.version(name)}" for name in names)


def _is_grey(image: Image.Image) -> bool:
    red, green, blue = (image.getchannel(number).tobytes() for number in range(3))
    return red == green == blue


def _jpeg(image: Image.Image, quality: int) -> bytes:
    return _saved(image, "JPEG", quality=quality, optimize=True)


def _png(image: Image.Image, _quality: int) -> bytes:
    return _saved(image, "PNG", optimize=False, compress_level=6)


def _webp(image: Image.Image, quality: int) -> bytes:
    return _saved(image.convert("RGB"), "WEBP", quality=quality, method=4)


def _webp_lossless(image: Image.Image, _quality: int) -> bytes:
    return _saved(image.convert("RGB"), "WEBP", lossless=True, quality=75, method=4)


def _saved(image: Image.Image, kind: str, **options: int | bool) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


Encoder = Callable[[Image.Image, int], bytes]

ENCODERS: dict[str, Encoder] = {
    JPEG.name: _jpeg,
    WEBP.name: _webp,
    **dict.fromkeys((format_.name for format_ in (PNG, GIF, BMP, TIFF, PNM)), _png),
}
"""Format of the stored bytes -> encoder: JPEG and WebP stay what they are, files without loss become PNG. All others (JPEG
2000, AVIF, HEIC: lossy, and slow or impossible to encode) become JPEG."""


def _encoder(kind: Format, data: bytes | memoryview) -> Encoder:
    if kind is WEBP and _has_no_loss(data):
        return _webp_lossless
    return ENCODERS.get(kind.name, _jpeg)


def _has_no_loss(webp: bytes | memoryview) -> bool:
    """Whether the still picture of a WebP file is coded without loss: its chunk is called VP8L, not VP8."""
    at = 12
    while at + 8 <= len(webp):
        name, size = bytes(webp[at : at + 4]), int.from_bytes(webp[at + 4 : at + 8], "little")
        if name in (b"VP8L", b"VP8 "):
            return name == b"VP8L"
        at += 8 + size + size % 2
    return False
