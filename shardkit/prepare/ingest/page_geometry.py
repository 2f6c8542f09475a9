"""Boxes follow the picture: from the page they were drawn on to pixels of the upright picture.

A layout counts on the raster as the file holds it, because OCR programs read that and not its orientation tag; where
the size that it states is that of the upright picture and not of the raster, it counts on the upright picture.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem

Size = tuple[float, float]
"""[height, width]"""

_TURNS: dict[int, Callable[[float, float, float, float], tuple[float, float]]] = {
    2: lambda x, y, w, _h: (w - x, y),
    3: lambda x, y, w, h: (w - x, h - y),
    4: lambda x, y, _w, h: (x, h - y),
    5: lambda x, y, _w, _h: (y, x),
    6: lambda x, y, _w, h: (h - y, x),
    7: lambda x, y, w, h: (h - y, w - x),
    8: lambda x, y, w, _h: (y, w - x),
}
"""Orientation tag -> a point of a raster of this width and height, where it lies in the upright picture."""


def follow(
    items: Sequence[LayoutItem], *, page: Size | None, upright: Size, orientation: int, changes: Counter[str]
) -> tuple[LayoutItem, ...]:
    """`items` in pixels of the upright picture.

    Args:
        page: the size that the layout states for its page, in the unit that it counts in; None: pixels.
        upright: size of the upright picture in pixels.
        orientation: 1 to 8, what its file says.

    Raises:
        Bad: where page and picture have different shapes.
    """
    raster = upright if orientation < 5 else (upright[1], upright[0])
    size = upright if page is not None and not _fits(page, raster) and _fits(page, upright) else raster
    if page is not None and not _fits(page, size):
        raise Bad(
            "image_sizes_wrong",
            f"the page of the layout is {page[0]:g} x {page[1]:g} (height x width), the image {size[0]:g} x {size[1]:g}",
        )
    turn = _TURNS.get(orientation) if size is raster and orientation != 1 else None
    down, right = (1.0, 1.0) if page is None else (size[0] / page[0], size[1] / page[1])
    if (down, right) != (1.0, 1.0):
        changes["layout_scaled"] += 1
    if turn is not None:
        changes["layout_turned"] += 1
    if turn is None and (down, right) == (1.0, 1.0):
        return tuple(items)

    def moved(polygon: tuple[float, ...]) -> tuple[float, ...]:
        points = [(x * right, y * down) for x, y in zip(polygon[0::2], polygon[1::2], strict=True)]
        if turn is not None:
            points = [turn(x, y, size[1], size[0]) for x, y in points]
        if len(points) == 2:
            # Two corners stay the upper left and the lower right one.
            points = [
                (min(p[0] for p in points), min(p[1] for p in points)),
                (max(p[0] for p in points), max(p[1] for p in points)),
            ]
        return tuple(value for point in points for value in point)

    return tuple(replace(item, polygon=moved(item.polygon)) if item.polygon else item for item in items)


def _fits(page: Size, picture: Size) -> bool:
    """Whether both have one shape: their ratios differ by at most 1%, and by what a rounded unit may add."""
    if page == picture:
        return True
    down, right = picture[0] / page[0], picture[1] / page[1]
    # A page that is next to nothing wide has no shape: its boxes would lie nowhere.
    return math.isfinite(down * right) and abs(down / right - 1) <= 0.01 + 1 / min(page)
