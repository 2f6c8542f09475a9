"""The names of the first trainers for the same row schema, for scripts that call them by hand.

    processor = PILImageProcessor(56)
    images = processor(images_of_rows(rows))                 [B, 3, 56, 56] float32
    batch = collate_omvt_batch(images, patch_sizes)          images and four streams of patches with their boxes

Every pixel lies five times in such a batch, as float32, and a row has one image. `StreamingLoader` sends each pixel once, as
a byte, and cuts the same patches on the device (`batch.patches`), of any number of images a row.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

from shardkit.errors import ConfigError, SourceError
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import NORMALISATIONS
from shardkit.media.processors.omvt import BASE, KINDS, PAD_VALUE, grid
from shardkit.media.reasons import BadMedia

_MEAN, _STD = NORMALISATIONS["imagenet"]
_BILINEAR = 2
"""Pillow's number of the filter."""
_CHANNELS = {1: "L", 3: "RGB"}


class PILImageProcessor:
    """Pictures to a square of one size and to normalised floats, with Pillow and torch alone.

    Args:
        image_size: side in pixels; the aspect is given up.
        in_channels: 3 for RGB, 1 for grey.
        mean: of each channel in 0 to 1; None leaves pixels in 0 to 1.
        std: of each channel.
        resample: number of a Pillow filter; bilinear where not given.

    Raises:
        ValueError: for a size below 1, another number of channels, or as many means or deviations as there are no channels.
    """

    def __init__(
        self,
        image_size: int = 224,
        *,
        in_channels: int = 3,
        mean: Sequence[float] | None = _MEAN,
        std: Sequence[float] | None = _STD,
        resample: int | None = None,
    ) -> None:
        if image_size < 1:
            raise ValueError(f"image_size {image_size} must be above 0")
        if in_channels not in _CHANNELS:
            raise ValueError(f"in_channels {in_channels} is neither 1 nor 3")
        if (mean is None) != (std is None):
            raise ValueError("mean and std are given together, or neither is")
        for name, values in (("mean", mean), ("std", std)):
            if values is not None and len(values) != in_channels:
                raise ValueError(f"{name} has {len(values)} values for {in_channels} channels")
        self.image_size = image_size
        self.in_channels = in_channels
        self.mean, self.std = mean, std
        self.resample = _BILINEAR if resample is None else resample

    def __call__(self, images: Any) -> Tensor:
        """[C, S, S] float32 of one picture, [B, C, S, S] of a list.

        Args:
            images: a path, bytes, a PIL image, a dict with `bytes` or `path`, or a list of these.

        Raises:
            SourceError: where a picture cannot be read.
            TypeError: for anything else.
        """
        if isinstance(images, (list, tuple)):
            found = [self._one(image) for image in images]
            size = (self.in_channels, self.image_size, self.image_size)
            return torch.stack(found) if found else torch.zeros(0, *size)
        return self._one(images)

    def _one(self, image: Any) -> Tensor:
        picture = _picture(image).convert(_CHANNELS[self.in_channels])
        size = (self.image_size, self.image_size)
        if picture.size != size:
            picture = picture.resize(size, self.resample)
        values = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(*size, self.in_channels)
        scaled = values.permute(2, 0, 1).double() / 255
        if self.mean is not None and self.std is not None:
            mean, std = (torch.tensor(part, dtype=torch.float64)[:, None, None] for part in (self.mean, self.std))
            scaled = (scaled - mean) / std
        # Worked out in double and rounded once, as the table of shardkit.loader.patches is: the same bits.
        return scaled.float().contiguous()


def images_of_rows(rows: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The one image of each row of the row schema; None where no row has any.

    Raises:
        ConfigError: where a row has several, or some rows have none: such a batch has one image a row or none at all.
    """
    counts = [len(row.get("images") or ()) for row in rows]
    if not any(counts):
        return None
    for number, count in enumerate(counts):
        if count != 1:
            raise ConfigError(
                f"row {number} has {count} images; a batch of this form has one image a row, or none at all",
                hint="stream any number of images a row with StreamingLoader, or split such rows with "
                "`shardkit tokenize --recipe vlm --set one_image_rows=true`",
            )
    return [row["images"][0] for row in rows]


def collate_omvt_batch(images: Tensor, omvt_cfg: Any = None) -> dict[str, Tensor]:
    """The images and, for each kind of patch, what the first tower takes.

    Args:
        images: [B, C, H, W] float.
        omvt_cfg: an object with `vertical_patch`, `horizontal_patch`, `square_patch` and `layout_patch`, or kind -> (height,
            width), in pixels; the base sizes where not given.

    Returns:
        images; <kind>_patches [B, P, C * height * width] in the order channel, row, column, filled up with 0 at the bottom and
        on the right; <kind>_bbox [B, P, 4] int64: y, x, height, width of each patch, whole also where it is filled up.
    """
    batch = {"images": images}
    for kind in KINDS:
        height, width = _sizes(omvt_cfg, kind)
        number, channels, full_height, full_width = images.shape
        rows, cols = grid(full_height, full_width, (height, width))
        filled = pad(images, (0, cols * width - full_width, 0, rows * height - full_height), value=PAD_VALUE)
        cells = filled.view(number, channels, rows, height, cols, width).permute(0, 2, 4, 1, 3, 5)
        batch[f"{kind}_patches"] = cells.reshape(number, rows * cols, channels * height * width)
        row, col = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
        box = torch.stack(
            [row * height, col * width, torch.full_like(row, height), torch.full_like(row, width)], dim=-1
        )
        batch[f"{kind}_bbox"] = box.view(1, rows * cols, 4).expand(number, -1, -1).to(images.device)
    return batch


def _sizes(omvt_cfg: Any, kind: str) -> tuple[int, int]:
    sizes = BASE if omvt_cfg is None else omvt_cfg
    height, width = sizes[kind] if isinstance(sizes, Mapping) else getattr(sizes, f"{kind}_patch")
    return int(height), int(width)


def _on_white(image: Image.Image) -> Image.Image:
    """What can be seen through shows white, as with pictures that are decoded here; Pillow alone would show what is beneath."""
    if not getattr(image, "has_transparency_data", False):
        return image
    whole = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole)


def _picture(image: Any) -> Any:
    """An upright picture with methods of Pillow's."""
    if isinstance(image, Mapping):
        image = image["bytes"] if image.get("bytes") is not None else image.get("path")
    if hasattr(image, "convert") and hasattr(image, "tobytes"):
        return _on_white(image)
    where = ""
    if isinstance(image, (str, os.PathLike)):
        where = os.fspath(image)
        try:
            image = Path(where).read_bytes()
        except OSError as error:
            raise SourceError(
                f"the picture cannot be read ({error.strerror})", where=where, hint="give a file that is there"
            ) from error
    if not isinstance(image, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"{type(image).__name__} is no picture: give a path, bytes, a PIL image or a dict with bytes or path"
        )
    try:
        return decode_rgb(bytes(image))
    except BadMedia as bad:
        raise SourceError(f"the picture cannot be decoded ({bad})", where=where, hint="leave it out") from bad
