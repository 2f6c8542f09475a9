"""Every picture becomes a square of one size and keeps its aspect: it is fitted in at the top left, the rest is filled up.

    S = 224    (100, 200)  ->  112 x 224 of 224 x 224        (1, 2000)  ->  1 x 224 of 224 x 224

It is resized first and filled up afterwards, so that its border stays free of the filling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry, image_patch_count


@dataclass(frozen=True, kw_only=True, slots=True)
class Letterbox(Fitted):
    NAME: ClassVar[str] = "letterbox"
    VERSION: ClassVar[int] = 1

    image_size: int = 224
    """Side of the square in pixels."""
    pad_value: int = 0
    """Grey of what is filled up, 0 to 255."""

    @property
    def fixed_slots(self) -> int:
        return image_patch_count(self.image_size, self.image_size, self.patch, self.merge)

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        longest = max(height, width)
        return Geometry(
            height=self.image_size,
            width=self.image_size,
            slots=self.fixed_slots,
            used_height=max(1, height * self.image_size // longest),
            used_width=max(1, width * self.image_size // longest),
        )
