"""Sides become multiples of a slot's side, the area stays between two bounds, the aspect nearly the same; nothing is filled up.

The rule of Qwen2-VL and Qwen2.5-VL, in whole numbers: a side that lies on a multiple is one, also where the scale as a
float falls just short of it (`smart_resize` makes 3556 of 3584 for some squares). With f = patch x merge:

    (h, w)         f = 28, 3136 to 12845056 pixels
    (1024, 768)    (1036, 756)     each side to the nearest multiple of f, of two the even one; at least f
    (3508, 2480)   (3500, 2492)
    (14, 14)       (56, 56)        too few pixels: up to the area, sides rounded up
    (5000, 5000)   (3584, 3584)    too many: down to the area, sides rounded down

A side that is held at f leaves the other one what the area has room for, so that the upper bound holds for every shape.
`hold_sides` is what Qwen's own tools do with a side shorter than half of f; transformers leaves it at 0, and so comes to
the second bound: (10, 400) is (28, 392) or (28, 364). hf:DIR follows transformers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry, ceil_div


@dataclass(frozen=True, kw_only=True, slots=True)
class PixelBudget(Fitted):
    NAME: ClassVar[str] = "pixel-budget"
    VERSION: ClassVar[int] = 1

    resampling: str = "bicubic"
    """A name of RESAMPLINGS."""
    normalisation: str = "clip"
    """A name of NORMALISATIONS."""
    min_pixels: int = 3136
    """Fewest pixels after processing, where max_pixels allows them."""
    max_pixels: int = 1003520
    """Most pixels after processing: 1,280 slots."""
    hold_sides: bool = True
    """Count a side shorter than half a slot as one slot from the start; without it such a picture is one of too few pixels."""

    def _check(self) -> None:
        if self.max_pixels < max(self.min_pixels, self.cell**2):
            raise self._refused(
                "max_pixels",
                f"{self.max_pixels}, less than min_pixels {self.min_pixels} or the {self.cell**2} pixels of a slot",
                "raise it: --set max_pixels=N",
            )

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        least = int(self.hold_sides)
        rows, columns = max(least, _rounded(height, self.cell)), max(least, _rounded(width, self.cell))
        most, area = self.max_pixels // self.cell**2, self.cell**2
        if rows * columns * area < max(1, self.min_pixels):
            # The root of a ratio, rounded up: the smallest k with k * k * (w * area) >= h * min_pixels.
            rows = isqrt(ceil_div(height * self.min_pixels, width * area) - 1) + 1
            columns = isqrt(ceil_div(width * self.min_pixels, height * area) - 1) + 1
        if rows * columns > most:
            rows = max(1, isqrt(height * self.max_pixels // (width * area)))
            columns = max(1, isqrt(width * self.max_pixels // (height * area)))
            rows, columns = min(rows, most // columns) if rows > 1 else 1, min(columns, most)
        return Geometry(height=rows * self.cell, width=columns * self.cell, slots=rows * columns)


def _rounded(a: int, b: int) -> int:
    """a / b, rounded to the nearest whole number, to the even one of two, as Python's round does."""
    whole, rest = divmod(a, b)
    return whole + (2 * rest > b or (2 * rest == b and whole % 2))
