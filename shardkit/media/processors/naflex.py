"""A picture of any size becomes about as many patches as there may be, up or down, its aspect nearly kept; nothing is filled up.

The rule of SigLIP 2 NaFlex: the largest scale at which the patches, each side rounded up, are few enough. It is found by
halving [0.000001, 100] down to 0.00001, as the model's own processor finds it: the scale is part of the rule, so it
stays a float, of multiplications and divisions that IEEE 754 fixes to the bit.

    (480, 640)  ->  (224, 288)      (100, 100)  ->  (256, 256)      (50, 2000)  ->  (48, 1360)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry

_SMALLEST, _LARGEST, _CLOSE = 1e-6, 100.0, 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class Naflex(Fitted):
    NAME: ClassVar[str] = "naflex"
    VERSION: ClassVar[int] = 1

    patch: int = 16
    """Side of a patch in pixels."""
    merge: int = 1
    """Patches a slot has on each side."""
    normalisation: str = "half"
    """A name of NORMALISATIONS."""
    max_patches: int = 256
    """Most patches of a picture."""

    def _check(self) -> None:
        if self.max_patches < self.merge**2:
            raise self._refused(
                "max_patches",
                f"{self.max_patches}, less than the {self.merge**2} of one slot",
                "raise it: --set max_patches=N",
            )

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        low, high = _SMALLEST, _LARGEST
        while high - low >= _CLOSE:
            scale = (low + high) / 2
            if self._cells(height, scale) * self._cells(width, scale) * self.merge**2 <= self.max_patches:
                low = scale
            else:
                high = scale
        rows, columns = self._cells(height, low), self._cells(width, low)
        return Geometry(height=rows * self.cell, width=columns * self.cell, slots=rows * columns)

    def _cells(self, side: int, scale: float) -> int:
        return max(1, ceil(side * scale / self.cell))
