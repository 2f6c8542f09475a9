"""A picture in small, without its border, from the one decode: what dedup needs to find pictures that were cropped or framed.

    128 x 128 cells -> rows and columns of one grey taken off the four sides -> 32 x 32 greys

Everything is whole numbers (Pillow's fixed-point arithmetic, sums), so a preview is the same on every platform.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE = 32

_Cells = npt.NDArray[np.uint8]

_FLAT = 12
"""Greys between the darkest and the lightest cell of a border's row: what lossy coding leaves of one colour."""
_MOST = 4
"""A quarter of the cells a side and no more: a picture that is flat further in is one of something small."""


def previews_of(cells: _Cells) -> list[bytes]:
    """Of each picture of [n, side, side] greys, side a multiple of SIDE: SIDE * SIDE greys of what is inside its border, row
    by row, one byte each."""
    previews = [small.tobytes() for small in _means(cells)]
    borders = _borders(cells)
    for place in np.flatnonzero(borders.any(1)).tolist():
        inner = _inside(cells[place], borders[place])
        # What a border left over may have a flat margin of its own, which goes from the picture without the border, too.
        inner = _inside(inner, _borders(inner[None])[0])
        previews[place] = Image.fromarray(inner).resize((SIDE, SIDE), Image.Resampling.BOX).tobytes()
    return previews


def _means(cells: _Cells) -> _Cells:
    """[n, SIDE, SIDE] the mean of each square of cells, rounded down."""
    size = cells.shape[1] // SIDE
    # Whole planes added to one another: a fifth of what a sum over two short axes takes.
    wide = cells.astype(np.uint16)
    rows = reduce(np.add, [wide[:, place::size] for place in range(size)])
    sums = reduce(np.add, [rows[:, :, place::size] for place in range(size)])
    means: _Cells = (sums // size**2).astype(np.uint8)
    return means


def _inside(cells: _Cells, border: npt.NDArray[np.intp]) -> _Cells:
    """What is left without the rows and columns of its border."""
    top, bottom, left, right = border
    height, width = cells.shape
    return np.ascontiguousarray(cells[top : height - bottom, left : width - right])


def _borders(cells: _Cells) -> npt.NDArray[np.intp]:
    """[n, height, width] -> [n, 4] how many rows at the top, at the bottom, and columns at the left, at the right are of one
    grey, with the one behind them, which holds some of both."""
    turned = cells.transpose(0, 2, 1)
    return np.stack([_border(side) for side in (cells, cells[:, ::-1], turned, turned[:, ::-1])], axis=1)


def _border(cells: _Cells) -> npt.NDArray[np.intp]:
    """[n] how many rows at the top are of the grey of the first one, with the one behind them."""
    rows = cells[:, : cells.shape[1] // _MOST]
    low, high = rows.min(2), rows.max(2)
    first_low, first_high = low[:, :1], high[:, :1]
    other = np.maximum(high, first_high) - np.minimum(low, first_low) > _FLAT
    end = other.argmax(1)  # 0 where the first row has several greys itself, and where all rows are of its grey
    return np.where(end > 0, end + 1, 0)
