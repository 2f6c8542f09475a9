"""Sizes of processed pictures and the image slots they take: the one function that tokenize, plan and model share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL import Image


@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry:
    """What a processor makes of one picture. Always named height and width: a bare pair is read both ways sooner or later."""

    height: int
    """Pixels after processing."""
    width: int
    slots: int
    """Number of <image_patch> positions in the sequence."""


class Processor(Protocol):
    """From canonical pixels to the pixels and slots of a model. Integers only, the same on every machine."""

    def geometry(self, height: int, width: int) -> Geometry:
        """Of a picture with this upright size. Slots are counted from the processed size, never from this one."""

    def pixels(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """uint8 [H, W, 3] of an RGB picture, H and W as `geometry` says."""

    def recipe(self) -> dict[str, Any]:
        """Name, version and every setting: part of the fingerprint of what was made with it."""


def image_patch_count(width: int, height: int, patch: int = 14, merge: int = 2) -> int:
    """Slots of a picture: patches of `patch` pixels, the border ones filled up, merged `merge` by `merge`; at least 1.

        57 x 56, patch 14:  5 x 4 patches  ->  3 x 2 merged  ->  6

    Raises:
        ValueError: if a number is below 1.
    """
    if min(width, height, patch, merge) < 1:
        raise ValueError(f"width {width}, height {height}, patch {patch} and merge {merge} must all be above 0")
    columns = _ceil_div(_ceil_div(width, patch), merge)
    rows = _ceil_div(_ceil_div(height, patch), merge)
    return max(1, rows * columns)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
