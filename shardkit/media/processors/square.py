"""Every picture becomes a square of one size; its aspect is given up, its slots are always the same number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry, image_patch_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Square(Fitted):
    NAME: ClassVar[str] = "square"
    VERSION: ClassVar[int] = 1

    image_size: int = 224
    """Side of the square in pixels. 56 takes 4 slots, 224 takes 64."""

    @property
    def fixed_slots(self) -> int:
        return image_patch_count(self.image_size, self.image_size, self.patch, self.merge)

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        return Geometry(height=self.image_size, width=self.image_size, slots=self.fixed_slots)
