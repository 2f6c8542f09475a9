"""A picture keeps its size where its patches are few enough, else it shrinks until they are; then it is filled up to whole slots.

The rule of NaViT and Kimi-VL, but the patches are counted after filling up: of all ways to lay rows and columns of slots
within the bounds, the one that shows the picture largest. The aspect is kept to the pixel below.

    (h, w)         patch 14, merge 2, 4096 patches, 512 along a side
    (600, 800)     600 x 800 of 616 x 812
    (3508, 2480)   1036 x 732 of 1036 x 756: 3996 patches      (counted before filling up: 4212)
    (8400, 28)     7168 x 23 of 7168 x 28
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry, ceil_div


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchBudget(Fitted):
    NAME: ClassVar[str] = "patch-budget"
    VERSION: ClassVar[int] = 1

    resampling: str = "bicubic"
    """A name of RESAMPLINGS."""
    normalisation: str = "half"
    """A name of NORMALISATIONS."""
    max_patches: int = 4096
    """Most patches, those counted that are filled up."""
    max_side: int = 512
    """Most patches along one side."""
    pad_value: int = 0
    """Grey of what is filled up, 0 to 255."""

    def _check(self) -> None:
        for name, least in (("max_patches", self.merge**2), ("max_side", self.merge)):
            if getattr(self, name) < least:
                raise self._refused(
                    name,
                    f"{getattr(self, name)}, less than the {least} of one slot",
                    f"raise it: --set {name}=N",
                )

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        used_height, used_width = self._shown(height, width)
        rows, columns = ceil_div(used_height, self.cell), ceil_div(used_width, self.cell)
        return Geometry(
            height=rows * self.cell,
            width=columns * self.cell,
            slots=rows * columns,
            used_height=used_height,
            used_width=used_width,
        )

    def _shown(self, height: int, width: int) -> tuple[int, int]:
        side, most = self.max_side // self.merge, self.max_patches // self.merge**2
        best, best_of = 0, 1
        for rows in range(1, min(ceil_div(height, self.cell), side, most) + 1):
            columns = min(side, most // rows)
            scale, of = min_ratio((rows * self.cell, height), (columns * self.cell, width), (1, 1))
            if scale * best_of > best * of:
                best, best_of = scale, of
        return max(1, height * best // best_of), max(1, width * best // best_of)


def min_ratio(*ratios: tuple[int, int]) -> tuple[int, int]:
    """The smallest of some (numerator, denominator), the first of equals."""
    least = ratios[0]
    for one in ratios[1:]:
        if one[0] * least[1] < least[0] * one[1]:
            least = one
    return least
