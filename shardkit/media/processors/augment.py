"""Random views of a picture: a part of it, of its own aspect, and its mirror image; decided by one number.

The number is `mix64(seed, epoch, example id, image)`, so a view depends on no order, worker, rank or restart. A part has
the aspect of the whole, so its slots are those of the whole; only whole numbers are computed with.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

from PIL import Image

from shardkit.digest import mix64

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shardkit.media.processors.geometry import Processor

VERSION = 1
"""Of the rules above; part of a processor's recipe."""
_FINE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """What is shown of a picture, in pixels of the picture, and whether it is mirrored."""

    top: int
    left: int
    height: int
    width: int
    mirrored: bool = False

    def of(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """The view of [H, W, 3], without a copy."""
        part = pixels[self.top : self.top + self.height, self.left : self.left + self.width]
        return part[:, ::-1] if self.mirrored else part

    def of_image(self, image: Image.Image) -> Image.Image:
        box = (self.left, self.top, self.left + self.width, self.top + self.height)
        part = image if box == (0, 0, *image.size) else image.crop(box)
        return part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if self.mirrored else part

    def scaled(self, size: tuple[int, ...], full: tuple[int, int]) -> View:
        """The same view of the picture decoded at another height and width than its full ones."""
        height, width = size
        if size == full:
            return self
        top, left = self.top * height // full[0], self.left * width // full[1]
        return View(
            top=top,
            left=left,
            height=max(1, min(self.height * height // full[0], height - top)),
            width=max(1, min(self.width * width // full[1], width - left)),
            mirrored=self.mirrored,
        )


def view_of(processor: Processor, height: int, width: int, chance: int) -> View | None:
    """What is shown of a picture; None where all of it is, as it is.

    Args:
        chance: 64 bits.
    """
    percent = processor.crop_percent
    mirrored = processor.mirror and mix64(chance, "mirror") >> 63 == 1
    if percent == 100:
        return View(top=0, left=0, height=height, width=width, mirrored=True) if mirrored else None
    # The share of the area is drawn evenly, in millionths; the side goes with its root.
    share = percent * _FINE // 100 + mix64(chance, "share") % (_FINE - percent * _FINE // 100 + 1)
    side = isqrt(share * _FINE)
    part_height, part_width = max(1, height * side // _FINE), max(1, width * side // _FINE)
    return View(
        top=mix64(chance, "top") % (height - part_height + 1),
        left=mix64(chance, "left") % (width - part_width + 1),
        height=part_height,
        width=part_width,
        mirrored=mirrored,
    )
