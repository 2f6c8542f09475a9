"""What PaddleOCR 3 saves of a picture: NAME_res.json, lines as parallel lists.

    {"input_path", "dt_polys": [...], "rec_texts": ["..."], "rec_scores": [0.99], "rec_polys": [[[x, y], ...]],
     "rec_boxes": [[x0, y0, x1, y1]], "textline_orientation_angles": [0], ...}

also inside {"res": ...}. rec_polys are the outlines of what was read; dt_polys, of what was found, may be more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardkit.prepare.ingest.formats.label import Label, lines_label, loose_polygon, text_of
from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem

_OUTLINES = ("rec_polys", "rec_boxes", "dt_polys")
"""In order of preference; one counts where it is as long as the texts."""
_ANGLES = "textline_orientation_angles"


def is_result(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object is such a result."""
    return isinstance(value.get("rec_texts"), list)


def label(value: Mapping[str, Any], changes: Counter[str]) -> Label:
    """The lines of a picture, in the order of the file.

    Raises:
        Bad: where a text is none.
    """
    texts: list[Any] = value["rec_texts"]
    outlines = next((value[name] for name in _OUTLINES if _fits(value.get(name), texts)), None)
    if outlines is None and texts:
        raise Bad("bad_label", f"none of {', '.join(_OUTLINES)} has an outline for each of the {len(texts)} texts")
    scores = value["rec_scores"] if _fits(value.get("rec_scores"), texts) else [None] * len(texts)
    items = []
    for place, (written, outline, score) in enumerate(zip(texts, outlines or [], scores, strict=True)):
        text = text_of(written, f"text {place}")
        changes["line_without_text"] += not text.strip()
        items.append(
            LayoutItem(
                level="line",
                text=text if text.strip() else None,
                polygon=loose_polygon(outline, changes),
                order=place,
                confidence=float(score) if type(score) in (int, float) and 0 <= score <= 1 else None,
            )
        )
    angles = value.get(_ANGLES)
    turned = isinstance(angles, list) and any(angle not in (0, -1) for angle in angles)
    return lines_label(items, fields={_ANGLES: angles} if turned else {})


def _fits(value: Any, texts: list[Any]) -> bool:
    return isinstance(value, list) and len(value) == len(texts)
