"""A picture in small, without its border, from the one decode: what dedup needs to find pictures that were cropped or framed.

    128 x 128 cells -> rows and columns of one grey taken off the four sides -> 32 x 32 greys

Everything is whole numbers (Pillow's fixed-point arithmetic, sums), so a preview is the same on every platform.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image

SIDE = 32

_Cells = npt.NDArray[np.uint8]

_FLAT = 12
"""Greys between the darkest and the lightest cell of a border's row: what lossy coding leaves of one colour."""
_MOST = 4
"""A quarter of the cells a side and no more: a picture that is flat further in is one of something small."""


def preview_of(cells: _Cells) -> bytes:
    """[n, n] greys, n a multiple of SIDE -> SIDE * SIDE greys of what is inside the border, row by row, one byte each."""
    inner = _inside(cells)
    if inner.shape == cells.shape:
        return _means(cells)
    # What a border left over may have a flat margin of its own, which goes from the picture without the border, too.
    inner = _inside(inner)
    small: bytes = Image.fromarray(inner).resize((SIDE, SIDE), Image.Resampling.BOX).tobytes()
    return small


def _means(cells: _Cells) -> bytes:
    """The mean of each square of cells, rounded down. The sums stay below 2**24, which float32 holds exactly."""
    size = len(cells) // SIDE
    squares = _squares(len(cells))
    sums = (squares @ cells.astype(np.float32) @ squares.T).astype(np.uint32)
    means: bytes = (sums // size**2).astype(np.uint8).tobytes()
    return means


@lru_cache(maxsize=1)
def _squares(num_cells: int) -> npt.NDArray[np.float32]:
    """[SIDE, num_cells] 1 where the cell belongs to the row of squares."""
    return np.repeat(np.eye(SIDE, dtype=np.float32), num_cells // SIDE, axis=1)


def _inside(cells: _Cells) -> _Cells:
    """What is left without rows and columns of one grey at the four sides."""
    top, bottom, left, right = (_border(edge) for edge in (cells, cells[::-1], cells.T, cells.T[::-1]))
    if not (top or bottom or left or right):
        return cells
    height, width = cells.shape
    return np.ascontiguousarray(cells[top : height - bottom, left : width - right])


def _border(cells: _Cells) -> int:
    """How many rows at the top are of the grey of the first one, with the one behind them, which holds some of both."""
    first = cells[0]
    low, high = int(np.minimum.reduce(first)), int(np.maximum.reduce(first))  # as min() and max(), called at once
    if high - low > _FLAT:
        return 0
    most = len(cells) // _MOST
    rows = cells[:most]
    lowest, highest = np.minimum(rows.min(1), low), np.maximum(rows.max(1), high)
    other = highest - lowest > _FLAT
    rows_of_it = int(other.argmax()) if other.any() else 0
    return rows_of_it + 1 if rows_of_it else 0
