"""One file in, one record out: header check, one full decode, ids, hashes, and the bytes to store.

bytes -> limits, format, size -> pixels -> asset_id (of the original), pixel_id and looks (of the picture), stored bytes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shardkit.digest import sha256, xxh3
from shardkit.media.decode import Picture, decode, decode_pages
from shardkit.media.limits import MediaLimits
from shardkit.media.phash import Looks, Sketch, looks_of, sketch
from shardkit.media.pixels import pixel_id
from shardkit.media.reasons import REASONS, BadMedia
from shardkit.media.stored import Pages, Stored

__all__ = ["REASONS", "BadMedia", "Media", "MediaLimits", "load", "load_pages"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Media:
    """A picture that decodes whole, and what is stored of it. Sizes are those of the upright picture, in pixels."""

    stored: bytes
    """Holds the picture as its first one, whatever `frame` it had in the file."""
    asset_id: str
    """sha256 of the bytes as they came."""
    stored_xxh3: str
    """xxh3-128 of `stored`."""
    pixel_id: str
    media_type: str
    extension: str
    """As the content says, with the dot: `.jpg`."""
    width: int
    height: int
    num_frames: int
    """Frames or pages of the file; second pictures of a JPEG are no frames."""
    frame: int
    """The page of the file that this is, from 0; 0 for all but TIFF."""
    removed: tuple[str, ...]
    """What was taken out of the stored bytes, by name (`shardkit.media.strip` lists the names); empty if they are the original."""
    num_removed_bytes: int
    orientation: int
    """1 to 8: how the raster of the file was turned to be upright, by us or by its decoder (`layout` follows it)."""
    changes: tuple[str, ...]
    """What decoding changes, by name: orientation, alpha_on_white, depth_to_8, cmyk_to_rgb, icc_to_srgb, icc_ignored,
    frames_left_out. And `metadata_left`, of a file too strange to be taken apart for sure, and `page_not_cut`, of a page
    that could not be taken out of its file and is stored with all of it."""
    sketch: Sketch
    """What its looks are made of; `shardkit.media.phash.looks_of` makes those of many at once."""
    has_gps: bool = False
    """The bytes as they came say where the picture was taken."""

    @property
    def looks(self) -> Looks:
        """Perceptual hashes and class of the picture."""
        return looks_of([self.sketch])[0]


def load(
    data: bytes | memoryview, *, limits: MediaLimits | None = None, frame: int = 0, keep_metadata: bool = False
) -> Media:
    """The record of the picture in `data`. It is decoded once and whole, never filled up, never encoded again.

    Args:
        data: the file as it came.
        limits: on bytes, pixels and shape; the defaults of MediaLimits without it.
        frame: which page of a TIFF, from 0; other files have one.
        keep_metadata: see `shardkit.media.stored`.

    Raises:
        BadMedia: with a code of REASONS and one sentence.
    """
    limits = limits or MediaLimits()
    picture = decode(data, frame=frame, limits=limits)
    return _media(picture, frame, sha256(data), Pages(data, limits, keep_metadata=keep_metadata).stored(picture, frame))


def load_pages(
    data: bytes | memoryview, *, limits: MediaLimits | None = None, keep_metadata: bool = False
) -> tuple[Media | BadMedia, ...]:
    """The records of all pages of a TIFF, or of the one picture of another file, as `load` makes each. The file is hashed
    and gone through once, so work and stored bytes grow with the pages and not with their square. A page that cannot be
    used is its BadMedia.

    Raises:
        BadMedia: if no picture can be opened.
    """
    return tuple(_media_of_pages(data, limits or MediaLimits(), keep_metadata))


def _media_of_pages(data: bytes | memoryview, limits: MediaLimits, keep_metadata: bool) -> Iterator[Media | BadMedia]:
    asset_id, pages = sha256(data), Pages(data, limits, keep_metadata=keep_metadata)
    for page, picture in enumerate(decode_pages(data, limits=limits)):
        if isinstance(picture, BadMedia):
            yield picture
            continue
        try:
            yield _media(picture, page, asset_id, pages.stored(picture, page))
        except BadMedia as bad:
            yield bad


def _media(picture: Picture, frame: int, asset_id: str, stored: Stored) -> Media:
    stripped = stored.stripped
    return Media(
        stored=stripped.data,
        asset_id=asset_id,
        stored_xxh3=xxh3(stripped.data),
        pixel_id=pixel_id(picture.image),
        media_type=picture.kind.media_type,
        extension=picture.kind.extension,
        width=picture.image.width,
        height=picture.image.height,
        num_frames=picture.num_frames,
        frame=frame,
        removed=tuple(stripped.removed),
        num_removed_bytes=sum(stripped.removed.values()),
        orientation=picture.orientation,
        changes=(*picture.changes, *stored.changes),
        sketch=sketch(picture.image, picture.grey),
        has_gps=picture.has_gps,
    )
