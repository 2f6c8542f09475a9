"""uint8 pixels -> normalised patches of the OMVT kinds, for images of any sizes.

Normalisation is a look-up: 256 values for each channel, computed once in float64 and rounded once, so that every
device gives the same bits. What hangs over the edge of an image is 0 in the normalised domain, the mean colour.

k: images of a run, H, W: their size, P: patches, V: values of a patch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn.functional import pad

from shardkit.loader.batch import ALIGN, ImagePlace
from shardkit.media.processors import NORMALISATIONS
from shardkit.media.processors.omvt import BASE, PAD_VALUE, grid

PATCH_SIZES = BASE
"""Kind -> height and width of its patches in pixels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patches:
    """All patches of one kind, image after image, each line by line."""

    values: Tensor
    """[P, 3 * height * width], in the order channel, row, column."""
    image: Tensor
    """[P] int64, ascending."""
    row: Tensor
    """[P] int64, in the image's grid."""
    col: Tensor


@lru_cache
def table(device: torch.device, normalisation: str = "imagenet", dtype: torch.dtype = torch.float32) -> Tensor:
    """[256 * 3]: the normalised value of byte b in channel c stands at 3 * b + c.

    Rounded to float32 and from there to `dtype`, on the host, so that every device has the same bits.
    """
    mean, std = (torch.tensor(part, dtype=torch.float64) for part in NORMALISATIONS[normalisation])
    values = torch.arange(256, dtype=torch.float64)[:, None] / 255
    return ((values - mean) / std).flatten().to(torch.float32).to(dtype).to(device)


def normalise(pixels: Tensor, normalisation: str = "imagenet", dtype: torch.dtype = torch.float32) -> Tensor:
    """[..., 3] of uint8 [..., 3]."""
    places = pixels.to(torch.int32) * 3 + torch.arange(3, dtype=torch.int32, device=pixels.device)
    return table(pixels.device, normalisation, dtype).index_select(0, places.flatten()).view(pixels.shape)


def cut(
    pixels: Tensor,
    images: Sequence[ImagePlace],
    sizes: Mapping[str, tuple[int, int]],
    *,
    normalisation: str = "imagenet",
    dtype: torch.dtype = torch.float32,
) -> dict[str, Patches]:
    """The patches of every image in each kind of `sizes`.

    Images of one size that follow one another are cut together. All shapes come from the host, so nothing waits for
    the device.

    Args:
        pixels: the flat bytes that hold the images.
        sizes: kind -> height and width of its patches in pixels.
        normalisation: a name of NORMALISATIONS.
        dtype: of the values.
    """
    if pixels.is_cuda and find_spec("triton") is not None:
        return {kind: _cut_by_kernel(pixels, images, patch, normalisation, dtype) for kind, patch in sizes.items()}
    parts: dict[str, list[Patches]] = {kind: [_none(patch, pixels.device, dtype)] for kind, patch in sizes.items()}
    for first, run in _runs(images):
        normalised_kHW3 = normalise(_stacked(pixels, run), normalisation, dtype)
        for kind, patch in sizes.items():
            parts[kind].append(_cut_run(normalised_kHW3, first, patch))
    return {
        kind: Patches(
            values=torch.cat([part.values for part in some]),
            image=torch.cat([part.image for part in some]),
            row=torch.cat([part.row for part in some]),
            col=torch.cat([part.col for part in some]),
        )
        for kind, some in parts.items()
    }


def _cut_by_kernel(
    pixels: Tensor, images: Sequence[ImagePlace], patch: tuple[int, int], normalisation: str, dtype: torch.dtype
) -> Patches:
    from shardkit.loader.kernels import patch_values

    values = patch_values(pixels, images, patch, table(pixels.device, normalisation, dtype))
    grids = [grid(image.height, image.width, patch) for image in images]
    cols_M = torch.tensor([cols for _, cols in grids], dtype=torch.int64).to(pixels.device, non_blocking=True)
    ends_M = torch.tensor([rows * cols for rows, cols in grids], dtype=torch.int64).cumsum(0)
    ends_M = ends_M.to(pixels.device, non_blocking=True)
    number = torch.arange(len(values), device=pixels.device)
    image = torch.searchsorted(ends_M, number, right=True)
    place = number - torch.cat([ends_M.new_zeros(1), ends_M])[image]
    return Patches(values=values, image=image, row=place // cols_M[image], col=place % cols_M[image])


def _runs(images: Sequence[ImagePlace]) -> list[tuple[int, list[ImagePlace]]]:
    """(index of the first, images) of every run of one size."""
    runs: list[tuple[int, list[ImagePlace]]] = []
    for index, image in enumerate(images):
        if runs and (runs[-1][1][0].height, runs[-1][1][0].width) == (image.height, image.width):
            runs[-1][1].append(image)
        else:
            runs.append((index, [image]))
    return runs


def _stacked(pixels: Tensor, run: Sequence[ImagePlace]) -> Tensor:
    """[k, H, W, 3] view of images of one size that lie side by side."""
    image = run[0]
    stride = -(-image.size // ALIGN) * ALIGN
    rows = pixels[image.offset : image.offset + len(run) * stride].view(len(run), stride)
    # The gap behind each image stays out of the view, and the view needs no copy.
    return rows[:, : image.size].view(len(run), image.height, image.width, 3)


def _cut_run(normalised_kHW3: Tensor, first: int, patch: tuple[int, int]) -> Patches:
    number, height, width, _ = normalised_kHW3.shape
    patch_height, patch_width = patch
    rows, cols = grid(height, width, patch)
    over = (0, 0, 0, cols * patch_width - width, 0, rows * patch_height - height)
    whole = pad(normalised_kHW3, over, value=PAD_VALUE)
    cells = whole.view(number, rows, patch_height, cols, patch_width, 3)
    device = normalised_kHW3.device
    shape = (number, rows, cols)

    def index(length: int, dimension: int, start: int = 0) -> Tensor:
        view = [1, 1, 1]
        view[dimension] = length
        return torch.arange(start, start + length, device=device).view(view).expand(shape).flatten()

    return Patches(
        values=cells.permute(0, 1, 3, 5, 2, 4).reshape(number * rows * cols, 3 * patch_height * patch_width),
        image=index(number, 0, first),
        row=index(rows, 1),
        col=index(cols, 2),
    )


def _none(patch: tuple[int, int], device: torch.device, dtype: torch.dtype) -> Patches:
    empty = torch.zeros(0, dtype=torch.int64, device=device)
    values = torch.zeros(0, 3 * patch[0] * patch[1], dtype=dtype, device=device)
    return Patches(values=values, image=empty, row=empty, col=empty)
