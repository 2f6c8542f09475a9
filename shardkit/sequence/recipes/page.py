"""The lines of a page in reading order, out of its layout, and their boxes as text.

A line is an item of level `line`; a region without lines; a word that stands in neither. Its text is its own, or that of
the words in it. Lines of one level go by their `order`; where levels are mixed, and where no order is given, they stand
as the layout lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardkit.media.processors import Geometry
    from shardkit.records import Image, LayoutItem

_LAST = 999
"""Boxes count from 0 to this, in either direction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLine:
    text: str
    box: tuple[float, float, float, float] | None = None
    """x0, y0, x1, y1 in pixels of the upright picture; None where the layout has none."""


def page_lines(layout: Sequence[LayoutItem] | None) -> list[PageLine]:
    """The lines with text, in reading order; [] without a layout."""
    items = list(layout or ())
    inside: dict[int, list[int]] = {}
    for index, item in enumerate(items):
        if item.parent is not None:
            inside.setdefault(item.parent, []).append(index)
    found = [index for index, item in enumerate(items) if _is_line(items, inside, index, item)]
    if len({items[index].level for index in found}) == 1:
        found = _in_order(items, found)
    lines = (_line(items, inside, index) for index in found)
    return [line for line in lines if line.text.strip()]


def box_text(box: tuple[float, float, float, float], image: Image, geometry: Geometry) -> str:
    """`<bbox_xxx_yyy_xxx_yyy>`: where a box of the upright picture lies on the processed one, in thousandths.

    Half a thousandth goes to the even one. What is filled up counts: the numbers say where on the canvas it is.

        (10, 20, 100, 200) of a picture 200 x 400 high, nothing filled up  ->  <bbox_050_050_500_500>
    """
    shown_height, shown_width = geometry.shown
    x0, y0, x1, y1 = box
    columns = [_thousandths(x, image.width, shown_width, geometry.width) for x in (x0, x1)]
    rows = [_thousandths(y, image.height, shown_height, geometry.height) for y in (y0, y1)]
    return f"<bbox_{columns[0]:03}_{rows[0]:03}_{columns[1]:03}_{rows[1]:03}>"


def _thousandths(value: float, of: int, shown: int, canvas: int) -> int:
    """Exact, so that a half is a half."""
    inside = min(max(Fraction(value), Fraction(0)), Fraction(of))
    return min(_LAST, round(inside * shown * _LAST / (of * canvas)))


def _is_line(items: list[LayoutItem], inside: dict[int, list[int]], index: int, item: LayoutItem) -> bool:
    if item.level == "line":
        return True
    if item.level == "region":
        return not any(items[one].level != "word" for one in inside.get(index, ()))
    parent = item.parent
    return parent is None or (items[parent].level == "region" and not _is_line(items, inside, parent, items[parent]))


def _in_order(items: list[LayoutItem], indices: list[int]) -> list[int]:
    """By `order`; as they are listed, where one of them has none."""
    orders = [items[index].order for index in indices]
    if any(order is None for order in orders):
        return indices
    return sorted(indices, key=lambda index: (items[index].order, index))


def _line(items: list[LayoutItem], inside: dict[int, list[int]], index: int) -> PageLine:
    item = items[index]
    words = _in_order(items, [one for one in inside.get(index, ()) if items[one].level == "word"])
    text = item.text or " ".join(items[word].text or "" for word in words if items[word].text)
    box = _around([item.polygon]) or _around([items[word].polygon for word in words])
    return PageLine(text=text, box=box)


def _around(polygons: Sequence[tuple[float, ...]]) -> tuple[float, float, float, float] | None:
    """The box around polygons; None where none has a point."""
    xs = [x for polygon in polygons for x in polygon[::2]]
    ys = [y for polygon in polygons for y in polygon[1::2]]
    return (min(xs), min(ys), max(xs), max(ys)) if xs and ys else None
