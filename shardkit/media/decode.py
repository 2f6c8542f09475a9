"""Canonical pixels: the one decode behind pixel ids, hashes, processors and the audit.

First frame or the one asked for, upright, 8-bit RGB, alpha on white, colours in sRGB (`colour.py` has the rules). The
header is judged before pixels are decoded, every picture is decoded whole, and one that lacks data is refused, never
filled up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageFile, features

from shardkit.media.colour import to_rgb
from shardkit.media.formats import GIF, JPEG, TIFF, Format
from shardkit.media.gps import has_gps
from shardkit.media.limits import PILLOW_MAX_PIXELS, MediaLimits
from shardkit.media.orientation import orientation_of, upright
from shardkit.media.pillow import count_frames, opened, reading
from shardkit.media.premature import ends_early
from shardkit.media.reasons import BadMedia

DECODER = "pillow-rgb/1"
"""Name and version of the rules above. Pixels that come out otherwise are a new version."""

_ANYTHING = MediaLimits(max_pixels=PILLOW_MAX_PIXELS, max_bytes=2**40, max_aspect=2**31)


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """One decoded frame and what was met on the way."""

    image: Image.Image
    """RGB and upright; carries no metadata."""
    kind: Format
    num_frames: int
    orientation: int
    """1 to 8, as the metadata says; `image` is turned by it already."""
    changes: tuple[str, ...]
    """What decoding changed, by name: those of `to_rgb`, `orientation`, `frames_left_out`."""
    has_gps: bool
    """The metadata says where it was taken."""


def decode_rgb(data: bytes | memoryview, frame: int = 0) -> Image.Image:
    """The canonical picture of `data`, RGB. For stored pictures: only the decoder's own limit on pixels is held.

    Raises:
        BadMedia: if the bytes do not decode.
    """
    return decode(data, frame=frame, limits=_ANYTHING).image


def decode(data: bytes | memoryview, *, frame: int, limits: MediaLimits) -> Picture:
    """As `decode_rgb`, within `limits`, with what a record of the picture needs.

    Raises:
        BadMedia: if `data` is not taken; see `REASONS`.
    """
    with opened(data, limits) as (kind, source):
        return _picture(kind, source, frame, data, limits)


def decode_frames(data: bytes | memoryview, *, limits: MediaLimits) -> Iterator[Picture | BadMedia]:
    """As `decode`, of every frame in order; one that is not taken is its BadMedia. The file is gone through once.

    Raises:
        BadMedia: if no frame can be opened.
    """
    frame, num_frames = 0, 1
    while frame < num_frames:
        with opened(data, limits) as (kind, source):
            num_frames = count_frames(kind, source)
            while frame < num_frames:
                frame += 1
                try:
                    yield _picture(kind, source, frame - 1, data, limits)
                except BadMedia as bad:
                    yield bad
                    break  # what a failed frame leaves of the open file is not trusted


def _picture(
    kind: Format, source: ImageFile.ImageFile, frame: int, data: bytes | memoryview, limits: MediaLimits
) -> Picture:
    _load(kind, source, frame, limits)
    with reading(kind, "picture"):
        filled_up = kind is JPEG and ends_early(data, source)
    if filled_up:
        raise BadMedia("truncated", "the JPEG data ends before the picture does, and an end mark hides it")
    orientation = orientation_of(kind, source.info)
    located = has_gps(source.info, getattr(source, "tag_v2", None))
    image, changes = to_rgb(kind, source, data)
    if image is source and kind in (GIF, TIFF):
        # Frames of these are counted by going through the file, and a picture that is the file would go with it.
        image = image.copy()
    num_frames = count_frames(kind, source)
    if orientation != 1:
        image = upright(image, orientation)
        changes = (*changes, "orientation")
    if num_frames > 1:
        changes = (*changes, "frames_left_out")
    image.info = {}
    return Picture(
        image=image, kind=kind, num_frames=num_frames, orientation=orientation, changes=changes, has_gps=located
    )


def decoder_versions() -> dict[str, str]:
    """Versions of the libraries that make the pixels, for the record of who made a dataset; they enter no id."""
    names = ("pil", "libjpeg_turbo", "zlib", "webp", "littlecms2", "jpg_2000", "libtiff", "avif")
    return {name: str(features.version(name)) for name in names if name in features.get_supported()}


def _load(kind: Format, source: ImageFile.ImageFile, frame: int, limits: MediaLimits) -> None:
    if frame > 0:
        num_frames = count_frames(kind, source)
        if frame >= num_frames:
            raise BadMedia("no_such_frame", f"frame {frame} of a file with {num_frames}, counted from 0")
        with reading(kind, "frame"):
            source.seek(frame)
        limits.check_size(*source.size)
    if kind is GIF and source.mode == "L":
        # The frame's own colours are greys; Pillow would look them up in the palette of the file.
        source.palette = None
    with reading(kind, "picture"):
        source.load()
