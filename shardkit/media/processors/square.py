"""Every picture becomes a square of one size; its aspect is given up, its slots are always the same number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.media.decode import DECODER
from shardkit.media.processors.geometry import Geometry, image_patch_count

if TYPE_CHECKING:
    import numpy.typing as npt

_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Square:
    image_size: int = 224
    """Side of the square in pixels. 56 takes 4 slots, 224 takes 64."""
    patch: int = 14
    """Side of a patch in pixels."""
    merge: int = 2
    """Patches a slot has on each side."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(
                    f"{name} of the square processor is {value!r}", hint=f"give a whole number above 0: --set {name}=N"
                )

    def geometry(self, height: int, width: int) -> Geometry:
        if min(height, width) < 1:
            raise ValueError(f"height {height} and width {width} must be above 0")
        slots = image_patch_count(self.image_size, self.image_size, self.patch, self.merge)
        return Geometry(height=self.image_size, width=self.image_size, slots=slots)

    def pixels(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """uint8 [image_size, image_size, 3], bilinear; a larger picture is averaged over the whole area that a pixel covers."""
        assert image.mode == "RGB", image.mode
        size = (self.image_size, self.image_size)
        return np.asarray(image if image.size == size else image.resize(size, Image.Resampling.BILINEAR))

    def recipe(self) -> dict[str, Any]:
        return {"name": "square", "version": _VERSION, "decoder": DECODER, "resampling": "bilinear", **asdict(self)}
