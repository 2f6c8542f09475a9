"""Canonical pixels: the one decode behind pixel ids, hashes, processors and the audit.

First frame or the one asked for, upright, 8-bit RGB, alpha on white, colours in sRGB (`colour.py` has the rules). The
header is judged before pixels are decoded, every picture is decoded whole, and one that lacks data is refused, never
filled up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageFile

from shardkit.media.colour import to_rgb
from shardkit.media.formats import GIF, JPEG, TIFF, Format, sniff
from shardkit.media.gps import has_gps
from shardkit.media.limits import PILLOW_MAX_PIXELS, MediaLimits
from shardkit.media.orientation import orientation_of, turned_by_decoder, upright
from shardkit.media.pillow import count_frames, opened, reading
from shardkit.media.premature import ends_early
from shardkit.media.reasons import BadMedia

DECODER = "pillow-rgb/1"
"""Name and version of the rules above. Pixels that come out otherwise are a new version."""

ANYTHING = MediaLimits(max_pixels=PILLOW_MAX_PIXELS, max_bytes=2**40, max_aspect=2**31)
"""For what was judged before: only the decoder's own limit on pixels is left."""
_TIFF_PROFILE = 34675


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """One decoded frame and what was met on the way."""

    image: Image.Image
    """RGB and upright; carries no metadata."""
    grey: Image.Image | None
    """The same in L, where the file holds nothing but greys."""
    kind: Format
    num_frames: int
    orientation: int
    """1 to 8, as the metadata says; `image` is turned by it already, here or by the decoder of its format."""
    changes: tuple[str, ...]
    """What decoding changed, by name: those of `to_rgb`, `orientation`, `frames_left_out`."""
    has_gps: bool
    """The metadata says where it was taken."""


def decode_rgb(data: bytes | memoryview, frame: int = 0) -> Image.Image:
    """The canonical picture of `data`, RGB; only the decoder's own limit on pixels is held.

    Stored bytes hold the picture of their row as their first one (`shardkit.media.stored`), so nobody who reads a
    dataset gives a frame; it is for files as they came.

    Raises:
        BadMedia: if the bytes do not decode.
    """
    return decode(data, frame=frame, limits=ANYTHING).image


def decode(data: bytes | memoryview, *, frame: int, limits: MediaLimits) -> Picture:
    """As `decode_rgb`, within `limits`, with what a record of the picture needs.

    Raises:
        BadMedia: if `data` is not taken; see `REASONS`.
    """
    num_frames = _count(data, limits) if frame else None
    if num_frames is not None and frame >= num_frames:
        raise BadMedia("no_such_frame", f"frame {frame} of a file with {num_frames}, counted from 0")
    with opened(data, limits) as (kind, source):
        return _picture(kind, source, frame, data, limits=limits, num_frames=num_frames)


def decode_pages(data: bytes | memoryview, *, limits: MediaLimits) -> Iterator[Picture | BadMedia]:
    """As `decode`, of every page of a TIFF in order, and of the first frame of any other file; a page that is not taken is
    its BadMedia. The file is gone through once.

    Raises:
        BadMedia: if no page can be opened.
    """
    num_frames, page = _count(data, limits), 0
    num_pages = num_frames if sniff(data) is TIFF else 1
    while page < num_pages:
        with opened(data, limits) as (kind, source):
            while page < num_pages:
                page += 1
                try:
                    yield _picture(kind, source, page - 1, data, limits=limits, num_frames=num_frames)
                except BadMedia as bad:
                    yield bad
                    break  # what a failed page leaves of the open file is not trusted


def _count(data: bytes | memoryview, limits: MediaLimits) -> int:
    """The frames of `data`, from an opening of its own: what a failed count leaves of an open file is not trusted."""
    with opened(data, limits) as (kind, source):
        return count_frames(kind, source)


def _picture(
    kind: Format,
    source: ImageFile.ImageFile,
    frame: int,
    data: bytes | memoryview,
    *,
    limits: MediaLimits,
    num_frames: int | None,
) -> Picture:
    """Frame `frame`, once `source` is loaded with it. `num_frames`: of the file; None: `source` is counted through, at the end."""
    orientation = _load(kind, source, frame, limits)
    with reading(kind, "picture"):
        filled_up = kind is JPEG and ends_early(data, source)
    if filled_up:
        raise BadMedia("truncated", "the JPEG data ends before the picture does, and an end mark hides it")
    located = has_gps(source.info, getattr(source, "tag_v2", None))
    colours = to_rgb(kind, source, data)
    image, grey, changes = colours.rgb, colours.grey, colours.changes
    if kind in (GIF, TIFF):
        # Frames of these are counted by going through the file, and a picture that is the file would go with it.
        image = image.copy() if image is source else image
        grey = grey.copy() if grey is source else grey
    if num_frames is None:
        num_frames = count_frames(kind, source)
    if orientation != 1 and kind is not TIFF:
        image = upright(image, orientation)
        grey = grey and upright(grey, orientation)
        changes = (*changes, "orientation")
    if num_frames > 1:
        changes = (*changes, "frames_left_out")
    image.info = {}
    return Picture(
        image=image,
        grey=grey,
        kind=kind,
        num_frames=num_frames,
        orientation=orientation,
        changes=changes,
        has_gps=located,
    )


def _load(kind: Format, source: ImageFile.ImageFile, frame: int, limits: MediaLimits) -> int:
    """Decode the pixels of a frame. Returns its orientation, 1 to 8."""
    if frame > 0:
        with reading(kind, "frame"):
            source.seek(frame)
        limits.check_size(*source.size)
    if kind is GIF and source.mode == "L":
        # The frame's own colours are greys; Pillow would look them up in the palette of the file.
        source.palette = None
    if kind is TIFF and _TIFF_PROFILE not in source.tag_v2:  # type: ignore[attr-defined]  # of TIFF images only
        # Pillow leaves it from the page that was looked at before.
        source.info.pop("icc_profile", None)
    with reading(kind, "picture"):
        # The decoder of a TIFF turns it and forgets by what.
        turned = turned_by_decoder(source) if kind is TIFF else 1
        source.load()
    return turned if kind is TIFF else orientation_of(kind, source.info)
