"""Sizes of processed pictures and the image slots they take: the one function that tokenize, plan and model share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from PIL import Image


@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry:
    """What a processor makes of one picture. Always named height and width: a bare pair is read both ways sooner or later."""

    height: int
    """Pixels after processing, with what is filled up."""
    width: int
    slots: int
    """Number of <image_patch> positions in the sequence."""
    used_height: int = 0
    used_width: int = 0
    """Pixels of these that show the picture, at the top left; 0 = all."""
    tile_rows: int = 0
    tile_columns: int = 0
    """Grid of tiles that the canvas is cut into, row by row; 0 = it is not cut."""

    @property
    def shown(self) -> tuple[int, int]:
        """Height and width that the picture itself is resized to: all that a decoder has to give."""
        return self.used_height or self.height, self.used_width or self.width


class Processor(Protocol):
    """From canonical pixels to the pixels and slots of a model: a frozen dataclass of whole numbers, names and truths.

    A pure function of its settings and the picture, the same on every machine.
    """

    NAME: ClassVar[str]
    """Its name in PROCESSORS."""

    @property
    def patch(self) -> int:
        """Side of a patch in pixels."""

    @property
    def merge(self) -> int:
        """Patches a slot has on each side."""

    @property
    def normalisation(self) -> str:
        """Name of the mean and standard deviation that the model expects, see NORMALISATIONS."""

    @property
    def resampling(self) -> str:
        """Name of the filter that pictures are resized with, see RESAMPLINGS."""

    @property
    def crop_percent(self) -> int:
        """Least share of a picture's area that a random view shows; 100 = there are no parts."""

    @property
    def mirror(self) -> bool:
        """Whether random views are mirrored."""

    def geometry(self, height: int, width: int) -> Geometry:
        """Of a picture with this upright size. Slots are counted from the processed size, never from this one.

        Raises:
            ValueError: where a side is below 1.
        """

    def pixels(self, image: Image.Image, geometry: Geometry | None = None) -> npt.NDArray[np.uint8]:
        """uint8 [H, W, 3] of an RGB picture, H and W as `geometry` says.

        Args:
            geometry: of the picture as it is stored, where `image` was decoded at a smaller scale.
        """

    def recipe(self) -> dict[str, Any]:
        """Name, version and every setting: part of the fingerprint of what was made with it."""

    @property
    def fixed_slots(self) -> int | None:
        """Slots of every picture, where all have the same number."""


def image_patch_count(width: int, height: int, patch: int = 14, merge: int = 2) -> int:
    """Slots of a picture: patches of `patch` pixels, the border ones filled up, merged `merge` by `merge`; at least 1.

        57 x 56, patch 14:  5 x 4 patches  ->  3 x 2 merged  ->  6

    Raises:
        ValueError: if a number is below 1.
    """
    if min(width, height, patch, merge) < 1:
        raise ValueError(f"width {width}, height {height}, patch {patch} and merge {merge} must all be above 0")
    columns = ceil_div(ceil_div(width, patch), merge)
    rows = ceil_div(ceil_div(height, patch), merge)
    return max(1, rows * columns)


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)
