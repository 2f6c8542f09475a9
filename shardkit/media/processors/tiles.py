"""A picture fitted into one to four tiles, without distortion: the grid that suits it best, top left, the rest filled up.

The rule of Llama 3.2 and of its first OBELICS loader, in whole numbers: 71 x 71 fills 448 x 448, of which the scale as a
float leaves a line out.

    (h, w)         tile 448, at most 4
    (100, 200)     1 tile,  224 x 448 of 448 x 448
    (480, 640)     4 tiles, 480 x 640 of 896 x 896         a picture is enlarged up to one tile, never further
    (2000, 100)    4 tiles, 1792 x 89 of 1792 x 448

Of the grids that hold the picture whole, the one that enlarges it least (`max_canvas`: most); where none does, the one
that shrinks it least; of equal ones the smallest. The price: on pages and pictures of the web a good third of the
pixels inside the tiles is filling.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, ClassVar

from shardkit.media.processors.fitted import Fitted, check_sides
from shardkit.media.processors.geometry import Geometry, image_patch_count

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiles(Fitted):
    NAME: ClassVar[str] = "tiles"
    VERSION: ClassVar[int] = 1

    normalisation: str = "clip"
    """A name of NORMALISATIONS."""
    tile: int = 448
    """Side of a tile in pixels."""
    max_tiles: int = 4
    """Most tiles of a picture."""
    max_canvas: bool = False
    """Of the grids that hold a picture whole, take the one that enlarges it most."""
    pad_value: int = 0
    """Grey of what is filled up, 0 to 255."""

    def _check(self) -> None:
        if self.tile % self.cell:
            raise self._refused(
                "tile",
                f"{self.tile}, no multiple of the {self.cell} pixels of a slot (patch {self.patch} x merge {self.merge})",
                "give a multiple: --set tile=N",
            )
        if self.max_tiles > 100:
            raise self._refused("max_tiles", f"{self.max_tiles}, above 100", "give fewer: --set max_tiles=N")

    def geometry(self, height: int, width: int) -> Geometry:
        check_sides(height, width)
        rows, columns = self._grid(height, width)
        full_height, full_width = rows * self.tile, columns * self.tile
        # Up to one tile it may grow, beyond that only shrink.
        most_height, most_width = min(max(height, self.tile), full_height), min(max(width, self.tile), full_width)
        if most_width * height < most_height * width:
            used_height, used_width = max(1, height * most_width // width), most_width
        else:
            used_height, used_width = most_height, max(1, width * most_height // height)
        return Geometry(
            height=full_height,
            width=full_width,
            slots=rows * columns * image_patch_count(self.tile, self.tile, self.patch, self.merge),
            used_height=used_height,
            used_width=used_width,
            tile_rows=rows,
            tile_columns=columns,
        )

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        best: tuple[int, int] | None = None
        for grid in grids(self.max_tiles):
            if best is None or self._better(grid, best, height, width):
                best = grid
        assert best is not None, "there is a grid of one tile"
        return best

    def _better(self, one: tuple[int, int], other: tuple[int, int], height: int, width: int) -> bool:
        """Whether grid `one` is to be preferred to `other`."""
        (scale, of), (scale_other, of_other) = (self._scale(grid, height, width) for grid in (one, other))
        holds, holds_other = scale >= of, scale_other >= of_other
        left, right = scale * of_other, scale_other * of
        if holds != holds_other:
            return holds
        if left == right:
            return one[0] * one[1] < other[0] * other[1]
        return left > right if self.max_canvas or not holds else left < right

    def _scale(self, grid: tuple[int, int], height: int, width: int) -> tuple[int, int]:
        """How large a picture is in a grid, as a ratio."""
        rows, columns = grid
        if rows * width < columns * height:
            return rows * self.tile, height
        return columns * self.tile, width


def grids(max_tiles: int) -> list[tuple[int, int]]:
    """Rows and columns of the grids of at most `max_tiles`, by number of tiles from above; those of one aspect together."""
    aspects: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number in range(max_tiles, 0, -1):
        for rows in range(1, number + 1):
            if number % rows == 0:
                columns = number // rows
                common = gcd(rows, columns)
                aspects.setdefault((rows // common, columns // common), []).append((rows, columns))
    return [grid for same in aspects.values() for grid in same]


def cut_tiles(pixels: npt.NDArray[np.uint8], tile: int) -> npt.NDArray[np.uint8]:
    """[tiles, tile, tile, 3] of a canvas [H, W, 3], row by row."""
    rows, columns = pixels.shape[0] // tile, pixels.shape[1] // tile
    cells = pixels.reshape(rows, tile, columns, tile, 3).transpose(0, 2, 1, 3, 4)
    tiles: npt.NDArray[np.uint8] = cells.reshape(rows * columns, tile, tile, 3)
    return tiles
