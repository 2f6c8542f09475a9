"""Boxes and polygons of a page: inside the picture, or clipped to it, or dropped; each change counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from shardkit.records import LayoutItem


def clipped(items: Sequence[LayoutItem], width: int, height: int, changes: Counter[str]) -> tuple[LayoutItem, ...]:
    """`items` with every polygon inside 0..width, 0..height.

    A polygon that is partly outside is clipped; one that is outside or has no area is dropped, its text stays.
    """
    kept = []
    for item in items:
        if not item.polygon or _is_inside(item.polygon, width, height):
            kept.append(item)
            continue
        points = _clip(item.polygon, width, height)
        if points is None:
            changes["box_dropped"] += 1
            changes[f"box_dropped:{'outside' if _has_area(item.polygon) else 'no_area'}"] += 1
            points = ()
        elif points != item.polygon:
            changes["box_clipped"] += 1
        kept.append(replace(item, polygon=points))
    return tuple(kept)


def scaled(
    items: Sequence[LayoutItem], counted: tuple[float, float], picture: tuple[int, int]
) -> tuple[LayoutItem, ...]:
    """`items` whose coordinates count on `counted` [height, width], in pixels of `picture` [height, width]."""
    by = (picture[1] / counted[1], picture[0] / counted[0])
    return tuple(
        replace(item, polygon=tuple(value * by[k % 2] for k, value in enumerate(item.polygon))) for item in items
    )


def _is_inside(polygon: tuple[float, ...], width: int, height: int) -> bool:
    """Whether it has an area, all of it inside: what most have, and what stays as it is."""
    xs, ys = polygon[0::2], polygon[1::2]
    return 0 <= min(xs) < max(xs) <= width and 0 <= min(ys) < max(ys) <= height


def _has_area(polygon: tuple[float, ...]) -> bool:
    return len(set(polygon[0::2])) > 1 and len(set(polygon[1::2])) > 1


def _clip(polygon: tuple[float, ...], width: int, height: int) -> tuple[float, ...] | None:
    xs = [min(max(x, 0.0), float(width)) for x in polygon[0::2]]
    ys = [min(max(y, 0.0), float(height)) for y in polygon[1::2]]
    if max(xs) <= min(xs) or max(ys) <= min(ys):
        return None
    return tuple(value for point in zip(xs, ys, strict=True) for value in point)
