"""The kernel beside the torch form, in Triton's interpreter; run as a program, because the interpreter is chosen at import."""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from shardkit.loader.batch import ALIGN, ImagePlace
from shardkit.loader.kernels import patch_values
from shardkit.loader.patches import cut, table

SIZES = [(30, 45), (14, 14), (57, 13), (1, 1)]


def main() -> int:
    generator = torch.Generator().manual_seed(0)
    images, offset = [], 0
    for height, width in SIZES:
        images.append(ImagePlace(offset=offset, height=height, width=width, slots=1))
        offset += -(-height * width * 3 // ALIGN) * ALIGN
    pixels = torch.randint(0, 256, (offset,), dtype=torch.uint8, generator=generator)
    for patch in ((14, 14), (32, 8), (8, 32), (56, 56), (5, 7)):
        for dtype in (torch.float32, torch.bfloat16):
            wanted = cut(pixels, images, {"kind": patch}, normalisation="clip", dtype=dtype)["kind"].values
            found = patch_values(pixels, images, patch, table(pixels.device, "clip", dtype))
            # As whole numbers: the very bits.
            if found.dtype != dtype or not torch.equal(found.view(torch.int16), wanted.view(torch.int16)):
                sys.stdout.write(f"patch {patch}, {dtype}: {int((found != wanted).sum())} values differ\n")
                return 1
    none = patch_values(pixels, [], (14, 14), table(pixels.device))
    sys.stdout.write(f"the same bits, {none.shape[0]} patches of no images\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
