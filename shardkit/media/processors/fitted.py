"""What all processors share: a picture resized once, laid at the top left of a canvas; settings that are checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.media.decode import DECODER
from shardkit.media.processors import omvt
from shardkit.media.processors.augment import VERSION as VIEW_VERSION

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from shardkit.media.processors.geometry import Geometry

RESAMPLINGS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
"""Name -> Pillow's filter. All but nearest average over the whole area that a pixel of a smaller picture covers."""

NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Name -> mean and standard deviation of red, green and blue in 0 to 1, as the device applies them to uint8 pixels.

Batches name one by its place here: a new one goes to the end.
"""

_WORDS = {bool: "true or false", str: "a name"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """A processor is its geometry; how pixels come about, and what is recorded, is the same for all."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int]

    patch: int = 14
    """Side of a patch in pixels."""
    merge: int = 2
    """Patches a slot has on each side."""
    resampling: str = "bilinear"
    """A name of RESAMPLINGS."""
    normalisation: str = "imagenet"
    """A name of NORMALISATIONS."""
    crop_percent: int = 100
    """Least share of a picture's area that is shown, a random part anew in each epoch; 100 = all of it, always."""
    mirror: bool = False
    """Show every other picture mirrored, others in each epoch. Not for pictures with text."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            kind = type(_default(self, name))
            if kind is not int:
                if type(value) is not kind:
                    raise self._refused(name, f"{value!r}", f"give {_WORDS[kind]}: --set {name}=VALUE")
                continue
            low = 0 if name == "pad_value" else 1
            if type(value) is not int or value < low:
                above = "above 0" if low else "from 0 to 255"
                raise self._refused(name, f"{value!r}", f"give a whole number {above}: --set {name}=N")
        for name, known in (("resampling", RESAMPLINGS), ("normalisation", NORMALISATIONS)):
            self._check_choice(name, known)
        pad_value = getattr(self, "pad_value", 0)
        if pad_value > 255:
            raise self._refused("pad_value", f"{pad_value}", "give a grey from 0 to 255: --set pad_value=N")
        if self.crop_percent > 100:
            raise self._refused("crop_percent", f"{self.crop_percent}", "give 1 to 100: --set crop_percent=N")
        self._check()

    def _check(self) -> None:
        """Refuse settings that contradict one another."""

    def _check_choice(self, name: str, known: Collection[str]) -> None:
        value = getattr(self, name)
        if value not in known:
            raise self._refused(name, f"{value!r}, none of {', '.join(known)}", f"choose one with --set {name}=NAME")

    def _refused(self, name: str, value: str, hint: str) -> ConfigError:
        return ConfigError(f"{name} of the {self.NAME} processor is {value}", hint=hint)

    def geometry(self, height: int, width: int) -> Geometry:
        raise NotImplementedError  # it is what each processor adds; this class alone is none

    @property
    def fixed_slots(self) -> int | None:
        return None

    @property
    def cell(self) -> int:
        """Side of what one slot shows, in pixels."""
        return self.patch * self.merge

    def pixels(self, image: Image.Image, geometry: Geometry | None = None) -> npt.NDArray[np.uint8]:
        """uint8 [H, W, 3]: the picture resized to what `geometry` shows, the rest of the canvas filled up."""
        assert image.mode == "RGB", image.mode
        target = geometry or self.geometry(image.height, image.width)
        height, width = target.shown
        if image.size != (width, height):
            image = image.resize((width, height), RESAMPLINGS[self.resampling])
        if (height, width) == (target.height, target.width):
            return np.asarray(image)
        canvas = np.full((target.height, target.width, 3), getattr(self, "pad_value", 0), np.uint8)
        canvas[:height, :width] = np.asarray(image)
        return canvas

    def recipe(self) -> dict[str, Any]:
        """With where and how a picture is filled up: `raw` = pixels of the canvas, else what hangs over its last patches."""
        padding = {"pad_domain": omvt.PAD_DOMAIN, "pad_value": omvt.PAD_VALUE}
        if hasattr(self, "pad_value"):
            padding["pad_domain"] = "raw"
        return {
            "name": self.NAME,
            "version": self.VERSION,
            "decoder": DECODER,
            **padding,
            **asdict(self),
            **self._views(),
        }

    def _views(self) -> dict[str, int]:
        return {"view_version": VIEW_VERSION} if self.mirror or self.crop_percent < 100 else {}


def check_sides(height: int, width: int) -> None:
    """Raises ValueError where a side of a picture is below 1."""
    if min(height, width) < 1:
        raise ValueError(f"height {height} and width {width} must be above 0")


def _default(processor: Fitted, name: str) -> Any:
    return processor.__dataclass_fields__[name].default
