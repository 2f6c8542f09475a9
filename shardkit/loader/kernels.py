"""The kernel that cuts and normalises patches on CUDA in one go: pixels are read once and written once.

One program a patch, or a part of a large one: which image and which cell of its grid, then a look-up for each value. What
hangs over the edge of an image is 0. Bits are those of shardkit.loader.patches, because both look up the same table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from shardkit.loader.batch import ImagePlace

_MOST_VALUES = 4096
"""Of one program; a layout patch of 56 x 56 takes three."""


@triton.jit  # type: ignore[untyped-decorator]  # triton has no types
def _cut(  # noqa: PLR0917 - a kernel is called by place
    pixels: Any,
    table: Any,
    images: Any,
    owner: Any,
    first: Any,
    out: Any,
    patch_height: tl.constexpr,
    patch_width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    patch = tl.program_id(0)
    image = tl.load(owner + patch)
    offset = tl.load(images + 3 * image)
    height = tl.load(images + 3 * image + 1)
    width = tl.load(images + 3 * image + 2)
    place = patch - tl.load(first + image)
    cols = (width + patch_width - 1) // patch_width
    row, col = place // cols, place % cols
    values: tl.constexpr = 3 * patch_height * patch_width
    value = tl.program_id(1) * block + tl.arange(0, block)
    channel = value // (patch_height * patch_width)
    y = row * patch_height + value // patch_width % patch_height
    x = col * patch_width + value % patch_width
    inside = (value < values) & (y < height) & (x < width)
    byte = tl.load(pixels + offset + (y * width + x) * 3 + channel, mask=inside, other=0)
    found = tl.load(table + byte.to(tl.int32) * 3 + channel, mask=inside, other=0.0)
    tl.store(out + patch.to(tl.int64) * values + value, found, mask=value < values)


def patch_values(pixels: Tensor, images: Sequence[ImagePlace], patch: tuple[int, int], table: Tensor) -> Tensor:
    """[P, 3 * height * width] normalised values of the patches of all images, image after image, each line by line.

    All sizes come from the host; nothing waits for the device.

    Args:
        pixels: the flat uint8 bytes that hold the images.
        patch: height and width in pixels.
        table: [256 * 3] value of byte b in channel c at 3 * b + c; its type is that of the result.
    """
    height, width = patch
    counts = [-(-image.height // height) * -(-image.width // width) for image in images]
    total, values = sum(counts), 3 * height * width
    out = torch.empty(total, values, dtype=table.dtype, device=pixels.device)
    if not total:
        return out
    sizes = torch.tensor([[image.offset, image.height, image.width] for image in images])
    ends = torch.tensor(counts).cumsum(0)
    sizes, ends = (part.to(pixels.device, non_blocking=True) for part in (sizes, ends))
    owner = torch.searchsorted(ends, torch.arange(total, device=pixels.device), right=True)
    first = torch.cat([ends.new_zeros(1), ends[:-1]])
    block = min(_MOST_VALUES, triton.next_power_of_2(values))
    _cut[(total, triton.cdiv(values, block))](pixels, table, sizes, owner, first, out, height, width, block)
    return out
