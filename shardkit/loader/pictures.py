"""Stored picture -> pixels of its slots, in any thread, into memory that is used again.

    decoder    plain JPEGs                     everything else    resized by     recorded as
    pillow     simplejpeg where it is there,   Pillow             Pillow         pillow-rgb/1, as datasets do
               with Pillow's very pixels
    turbo      simplejpeg, at a smaller scale  Pillow             torch          turbo-rgb/1 with all versions
               where three pixels are left for
               each one that is shown
    device     not here: they go on as they    Pillow             torch on the   device-rgb/1 with all versions
               are, see loader/jpegs.py                           device

`pillow` gives the same pixels on every machine; `turbo` gives others by a hair, in half the time or less, and so does
`device`, which leaves the work to a GPU.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.media import turbo
from shardkit.media.decode import DECODER, decode_rgb
from shardkit.media.processors import Geometry, Processor
from shardkit.media.processors.augment import View, view_of

DECODERS = ("pillow", "turbo", "device")

_RESIZED = {
    "bilinear": torch.ops.aten._upsample_bilinear2d_aa.out,
    "bicubic": torch.ops.aten._upsample_bicubic2d_aa.out,
}
"""Filters of Pillow that torch has alike."""
_KEPT = 3
"""Pixels that a picture is decoded to, on each side, for each one that is shown. With two, photographs come out at a PSNR
down to 33 dB from the canonical pixels; with three, 38."""

_END = b"\xff\xd9"
"""Of every JPEG that is whole; one without it is for Pillow to judge."""
_MOST_SHRUNK = 32
"""Pixels of a picture, on each side, for each one that is shown, up to which CUDA's filter has memory in every GPU; above it
pictures are shrunk on the host."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class Jpeg:
    """A plain JPEG as it is stored, to be decoded where its batch is built."""

    data: bytes | memoryview
    height: int
    width: int
    """Pixels, as it is stored."""
    chance: int | None
    """Decides the view, see `augment`."""
    processor: Processor


class SlotMismatchError(ValueError):
    """A picture has another size after processing than its slots were made for."""


def identity(decoder: str) -> str:
    """What makes the pixels, as states bind it.

    Raises:
        ConfigError: where it is not installed.
    """
    if decoder == "pillow":
        return DECODER
    if not turbo.installed():
        raise ConfigError(
            "the decoder turbo needs simplejpeg", hint="pip install 'shardkit[turbo]', or leave decoder at pillow"
        )
    capability = torch.backends.cpu.get_cpu_capability()
    return f"turbo-rgb/1 (simplejpeg {turbo.version()}, torch {torch.__version__}, {capability})"


class Pictures:
    """Fills the places of pictures; for any number of threads."""

    def __init__(self, processor: Processor, decoder: str) -> None:
        self._processor = processor
        self._turbo = decoder == "turbo"
        self._left = decoder == "device" and processor.resampling in _RESIZED
        """Whether plain JPEGs are left to the device: it has the filter."""
        self._fast = self._turbo or turbo.is_exact()
        self._local = threading.local()

    def put(self, data: bytes | memoryview, out: Pixels, shown: tuple[int, int], chance: int | None) -> Jpeg | None:
        """Decode and process a picture into `out` [H, W, 3].

        Args:
            shown: height and width of `out` that its slots say the picture takes.
            chance: decides the view, see `augment`; None shows all of it.

        Returns:
            What is left to the device, which leaves `out` alone; else None.

        Raises:
            BadMedia: where it cannot be decoded.
            SlotMismatchError: where it takes another size.
        """
        size = turbo.plain_size(data) if self._fast or self._left else None
        if size is not None:
            geometry = self._checked(*size, out, shown)
            if self._left and bytes(data[-2:]) == _END and self._shrinks_little(size, geometry):
                return Jpeg(data=data, height=size[0], width=size[1], chance=chance, processor=self._processor)
            if self._fast and self._put_plain(data, size, geometry, out, chance):
                return None
        image = decode_rgb(data)
        geometry = self._checked(image.height, image.width, out, shown)
        view = self._view(image.height, image.width, chance)
        image = view.of_image(image) if view else image
        if self._turbo:
            self._put_by_torch(np.array(image), geometry, out)
        else:
            out[...] = self._processor.pixels(image, geometry)
        return None

    def _put_plain(
        self, data: bytes | memoryview, size: tuple[int, int], geometry: Geometry, out: Pixels, chance: int | None
    ) -> bool:
        """Whether simplejpeg takes the picture, which is in `out` then."""
        view = self._view(*size, chance)
        pixels = turbo.decode_plain(data, size, self._scratch(), scale=self._scale(size, geometry, view))
        if pixels is None:
            return False
        part = view.scaled(pixels.shape[:2], size).of(pixels) if view else pixels
        if self._turbo:
            self._put_by_torch(part, geometry, out)
        else:
            out[...] = self._processor.pixels(Image.fromarray(part), geometry)
        return True

    def _checked(self, height: int, width: int, out: Pixels, shown: tuple[int, int]) -> Geometry:
        geometry = self._processor.geometry(height, width)
        if (geometry.height, geometry.width) != out.shape[:2] or geometry.shown != shown:
            raise SlotMismatchError(
                f"is {geometry.shown[0]} x {geometry.shown[1]} in {geometry.height} x {geometry.width} after processing, "
                f"its slots were made for {shown[0]} x {shown[1]} in {out.shape[0]} x {out.shape[1]}"
            )
        return geometry

    def _view(self, height: int, width: int, chance: int | None) -> View | None:
        return None if chance is None else view_of(self._processor, height, width, chance)

    def _scale(self, size: tuple[int, int], geometry: Geometry, view: View | None) -> int:
        """How much smaller a picture can be decoded, so that `_KEPT` pixels are left for each one of the view."""
        if not self._turbo or self._processor.resampling not in _RESIZED:
            return 1
        part = (view.height, view.width) if view else size
        return max(
            scale
            for scale in turbo.SCALES
            if scale == 1 or all(of >= _KEPT * side * scale for of, side in zip(part, geometry.shown, strict=True))
        )

    def _shrinks_little(self, size: tuple[int, int], geometry: Geometry) -> bool:
        return all(of <= _MOST_SHRUNK * side for of, side in zip(size, geometry.shown, strict=True))

    def _put_by_torch(self, part: Pixels, geometry: Geometry, out: Pixels) -> None:
        height, width = geometry.shown
        if part.shape[:2] != (height, width):
            resize = _RESIZED.get(self._processor.resampling)
            if resize is None:
                out[...] = self._processor.pixels(Image.fromarray(np.ascontiguousarray(part)), geometry)
                return
            target = out[:height, :width]
            place = target if target.flags.c_contiguous else np.empty((height, width, 3), np.uint8)
            source, resized = (
                torch.from_numpy(pixels).permute(2, 0, 1)[None] for pixels in (np.ascontiguousarray(part), place)
            )
            # What interpolate(..., antialias=True) calls, straight into the batch: fresh memory costs as much as the work.
            resize(source, [height, width], False, None, None, out=resized)
            part = place
        if (height, width) != (geometry.height, geometry.width):
            out[height:] = out[:, width:] = getattr(self._processor, "pad_value", 0)
        if not np.shares_memory(part, out):
            out[:height, :width] = part

    def _scratch(self) -> turbo.Scratch:
        scratch: turbo.Scratch | None = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = turbo.Scratch()
        return scratch
