"""ICC profiles to sRGB. A profile that is broken, or of another colour space than the picture, is ignored and counted."""

from __future__ import annotations

import functools
import io

import numpy as np
from PIL import Image, ImageCms

_MODES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}
"""Colour space of a profile -> mode of the pictures it is for."""

_SAME = 1
"""A profile that moves no colour of a probe further than this many levels is sRGB by another name: nothing is changed."""


def to_srgb(image: Image.Image, profile: object) -> tuple[Image.Image, tuple[str, ...]]:
    """`image` (L, RGB or CMYK) in sRGB, and `icc_to_srgb`, `icc_ignored` or nothing."""
    transform, changes = _transform(profile if isinstance(profile, bytes) else b"", image.mode)
    return image if transform is None else _apply(transform, image), changes


@functools.lru_cache(maxsize=16)
def _transform(profile: bytes, mode: str) -> tuple[ImageCms.ImageCmsTransform | None, tuple[str, ...]]:
    """The transform of `profile`; pictures of one camera or program share theirs, so the last few are kept."""
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if _MODES.get(source.profile.xcolor_space.strip()) != mode:
            return None, ("icc_ignored",)
        transform = ImageCms.ImageCmsTransform(
            source, ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")), mode, "RGB"
        )
        probe = _probe(mode)
        moved = np.asarray(_apply(transform, probe)).astype(int) - np.asarray(probe.convert("RGB"))
    except (ImageCms.PyCMSError, OSError, ValueError):
        return None, ("icc_ignored",)
    if mode != "CMYK" and np.abs(moved).max() <= _SAME:
        return None, ()
    return transform, ("icc_to_srgb",)


def _apply(transform: ImageCms.ImageCmsTransform, image: Image.Image) -> Image.Image:
    return transform.apply(image)


def _probe(mode: str) -> Image.Image:
    """Colours from all over the space: 16 levels of each channel, one row a combination."""
    levels = np.arange(0, 256, 17, dtype=np.uint8)
    if mode == "L":
        return Image.fromarray(np.arange(256, dtype=np.uint8)[None])
    grid = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, -1, 3)
    picture = Image.fromarray(grid)
    return picture if mode == "RGB" else picture.convert(mode)
