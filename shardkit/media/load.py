"""One file in, one record out: header check, one full decode, ids, and the bytes to store.

bytes -> limits, format, size -> pixels -> asset_id (of the original), pixel_id (of the picture), stored bytes
"""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.digest import sha256, xxh3
from shardkit.media.decode import decode
from shardkit.media.limits import MediaLimits
from shardkit.media.pixels import pixel_id
from shardkit.media.reasons import REASONS, BadMedia
from shardkit.media.strip import Stripped, strip

__all__ = ["REASONS", "BadMedia", "Media", "MediaLimits", "load"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Media:
    """A picture that decodes whole, and what is stored of it. Sizes are those of the upright picture, in pixels."""

    stored: bytes
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
    """The one that width, height and pixel_id are of."""
    removed: tuple[str, ...]
    """What was taken out of the stored bytes, by name (`shardkit.media.strip` lists the names); empty if they are the original."""
    num_removed_bytes: int
    orientation: int
    """1 to 8: how the raster of the file was turned to be upright; 1 also where its decoder turns it by itself."""
    changes: tuple[str, ...]
    """What decoding changes, by name: orientation, alpha_on_white, depth_to_8, cmyk_to_rgb, icc_to_srgb, icc_ignored,
    frames_left_out. And `metadata_left`, of a file too strange to be taken apart for sure."""
    has_gps: bool = False
    """The bytes as they came say where the picture was taken."""


def load(
    data: bytes | memoryview, *, limits: MediaLimits | None = None, frame: int = 0, keep_metadata: bool = False
) -> Media:
    """The record of the picture in `data`. It is decoded once and whole, never filled up, never encoded again.

    Args:
        data: the file as it came.
        limits: on bytes, pixels and shape; the defaults of MediaLimits without it.
        frame: which frame or page, from 0.
        keep_metadata: store the bytes as they came.

    Raises:
        BadMedia: with a code of REASONS and one sentence.
    """
    picture = decode(data, frame=frame, limits=limits or MediaLimits())
    stripped = (
        Stripped(data=bytes(data), removed={}) if keep_metadata else strip(picture.kind, data, picture.orientation)
    )
    return Media(
        stored=stripped.data,
        asset_id=sha256(data),
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
        changes=picture.changes if stripped.is_sure else (*picture.changes, "metadata_left"),
        has_gps=picture.has_gps,
    )
