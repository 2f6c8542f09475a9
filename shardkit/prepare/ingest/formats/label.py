"""What is written on a picture, as the label readers give it: a text, boxes, and what else the label says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    text: str
    layout: tuple[LayoutItem, ...] | None = None
    stated_size: tuple[int, int] | None = None
    """[height, width] of the picture that the boxes were drawn on."""
    grid: tuple[float, float] | None = None
    """[height, width] that the layout's coordinates count on, where they are no pixels of the picture."""
    page_size: tuple[float, float] | None = None
    """[height, width] of the page that the coordinates count on, in any unit: a page of the picture's shape."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the label says."""
    ocr_labels: tuple[int, ...] | None = None
    """Token ids of the text, where the source writes those."""
    reading_order: tuple[int, ...] | None = None
    """Order of the picture's patches, where the source has one."""
    pages: tuple[Label, ...] = ()
    """The labels of the pages of one file, where the label has several."""
    document: Callable[[str], Mapping[str, str | int]] | None = None
    """A stem -> document_id and page, where files of the dialect are named so."""
    silent: bool = False
    """It says nothing of the text: only its fields count."""
    image: str = ""
    """What it calls its image, a name or path; empty where it does not say."""
    bad: Bad | None = None
    """Why this page, of several, cannot be used."""


Read = Callable[[bytes, Counter[str]], Label]
"""The bytes of a label file -> its label; raises Bad. Changes are counted by name."""


def polygon(box: Any) -> tuple[float, ...] | None:
    """Coordinates of a box in any of the usual forms: [x0, y0, x1, y1], a flat list, or a list of points.

    None for what is none of them.
    """
    if not isinstance(box, list):
        return None
    flat: list[Any] = box
    if list in map(type, box):
        flat = [value for point in box for value in (point if isinstance(point, list) else (point,))]
    if len(flat) < 4 or len(flat) % 2 or not {int, float}.issuperset(map(type, flat)):
        return None
    points = tuple(map(float, flat))
    return points if all(map(math.isfinite, points)) else None


def loose_polygon(box: Any, changes: Counter[str]) -> tuple[float, ...]:
    """`polygon`, or no polygon where it is none, counted: one bad box does not lose its page."""
    points = polygon(box)
    if points is None:
        changes["box_unusable"] += 1
    return points or ()


def number(text: str) -> float | None:
    """The finite number that `text` writes."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def lines_label(items: list[LayoutItem], **more: Any) -> Label:
    """The label of lines in order: its text is theirs, one a line; those without text are only boxes."""
    text = "\n".join(item.text for item in items if item.text is not None)
    return Label(text=text, layout=tuple(items), **more)


def text_of(value: Any, shown: str) -> str:
    """`value`, which must be a text.

    Raises:
        Bad: with the type that it is of.
    """
    if value is None:
        raise Bad("null_text", f"{shown} is null")
    if not isinstance(value, str):
        raise Bad("wrong_type", f"{shown} is of type {type(value).__name__}, not a text")
    return value
