"""The four kinds of patches that the OMVT tower looks at, as grids of whole numbers: shared by the loader and the trainer.

    kind         base        derived, side S    a 224 x 224 picture in `base`
    vertical     32 x 8      S/2 x S/4          7 rows x 28 columns
    horizontal   8 x 32      S/4 x S/2          28 x 7
    square       16 x 16     S/4 x S/4          14 x 14
    layout       56 x 56     S x S              4 x 4

A picture is filled up at the bottom and on the right to whole patches, after normalisation, with 0: the mean colour.
Patches lie row by row, their values in the order channel, row, column.
"""

from __future__ import annotations

PAD_DOMAIN = "normalised"
PAD_VALUE = 0.0
KINDS = ("vertical", "horizontal", "square", "layout")

BASE: dict[str, tuple[int, int]] = {"vertical": (32, 8), "horizontal": (8, 32), "square": (16, 16), "layout": (56, 56)}
"""Kind -> height and width of a patch in pixels."""


def derived(side: int) -> dict[str, tuple[int, int]]:
    """Patches in proportion to a square picture of `side` pixels, which must divide by 4.

    Raises:
        ValueError: if it does not.
    """
    if side < 4 or side % 4:
        raise ValueError(f"side {side} is no multiple of 4")
    half, quarter = side // 2, side // 4
    return {
        "vertical": (half, quarter),
        "horizontal": (quarter, half),
        "square": (quarter, quarter),
        "layout": (side, side),
    }


PRESETS: dict[str, dict[str, tuple[int, int]]] = {"base": BASE, "derived": derived(56)}
"""Name -> kind -> height and width of a patch; `derived` is for pictures of 56 x 56."""


def grid(height: int, width: int, patch: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of patches (height, width) that cover a picture, the last ones filled up.

    Raises:
        ValueError: if a number is below 1.
    """
    patch_height, patch_width = patch
    if min(height, width, patch_height, patch_width) < 1:
        raise ValueError(f"picture {height} x {width} and patch {patch_height} x {patch_width} must be above 0")
    return -(-height // patch_height), -(-width // patch_width)


def num_patches(height: int, width: int, patches: dict[str, tuple[int, int]]) -> int:
    """Patches of all kinds that a picture has."""
    return sum(rows * columns for rows, columns in (grid(height, width, patch) for patch in patches.values()))
