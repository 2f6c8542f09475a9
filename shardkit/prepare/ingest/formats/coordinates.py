"""Numbers of layout files: coordinates in every spelling, confidences, sizes. One bad box does not lose its page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

from shardkit.prepare.ingest.reasons import Bad, plain

_BETWEEN = re.compile(r"[\s,;]+")


def numbers(texts: Iterable[str], changes: Counter[str]) -> tuple[float, ...]:
    """Coordinates x0, y0, x1, y1, ...; nothing, counted, where they are none. Spaces and commas part them alike."""
    words = [word for text in texts for word in _BETWEEN.split(text.strip()) if word]
    try:
        values = tuple(map(float, words))
    except ValueError:
        values = ()
    if len(values) < 4 or len(values) % 2 or not all(map(math.isfinite, values)):
        changes["box_unusable"] += 1
        return ()
    return values


def box(x: str, y: str, width: str, height: str, changes: Counter[str]) -> tuple[float, ...]:
    """The two corners of a box given by one corner and its size; nothing where it has none of these."""
    if not (x or y or width or height):
        return ()
    # Programs of some languages write 10,5 for 10.5; in a single number a comma parts nothing else.
    corner = numbers([value.replace(",", ".") for value in (x, y, width, height)], changes)
    if len(corner) != 4:
        changes["box_unusable"] += bool(corner)
        return ()
    return (corner[0], corner[1], corner[0] + corner[2], corner[1] + corner[3])


def share(text: str, changes: Counter[str], whole: float = 1.0) -> float | None:
    """A confidence of 0 to `whole` as one of 0 to 1; None where there is none, counted where it is no such number."""
    if not text:
        return None
    try:
        value = float(text) / whole
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        changes["confidence_unusable"] += 1
        return None
    return value


def page_size(height: str, width: str) -> tuple[float, float] | None:
    """[height, width] that a page states; None where it states none.

    Raises:
        Bad: where it states something that is no size.
    """
    if not height and not width:
        return None
    try:
        size = float(height), float(width)
    except ValueError:
        size = -1.0, -1.0
    if not all(math.isfinite(side) and side >= 0 for side in size):
        raise Bad(
            "bad_label", f"the page is {plain(width or 'nothing', 20)} wide and {plain(height or 'nothing', 20)} high"
        )
    return size if min(size) > 0 else None
