"""The label of a page or line: a text file, or JSON with the text, or JSON with lines and their order.

    {"text": "..."}
    {"lines": [{"text": "...", "bbox": [x0, y0, x1, y1]}, ...], "reading_order": [1, 0, ...], "size": [H, W], ...}

Of several label files of one stem the JSON is the label and a text file of equal text is a witness; texts that differ
make the label ambiguous, and the order of files in a folder decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem

TEXT_LABELS = (".gt.txt", ".txt")
"""In order of trust."""
LABELS = (*TEXT_LABELS, ".json")
"""Suffixes of the label files that are known."""

_BOX_FIELDS = ("bbox", "box", "polygon", "points", "quad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    text: str
    layout: tuple[LayoutItem, ...] | None = None
    stated_size: tuple[int, int] | None = None
    """[height, width] of the picture that the boxes were drawn on."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the label says."""


def read_label(files: Mapping[str, bytes], changes: Counter[str]) -> Label:
    """The label that the label files of one stem give together.

    Args:
        files: suffix of `LABELS` -> bytes; at least one.

    Raises:
        Bad: where they disagree, are empty, or are not what they must be.
    """
    texts = {suffix: decoded(files[suffix], changes) for suffix in TEXT_LABELS if suffix in files}
    trusted = next(iter(texts.values()), None)
    if len(texts) > 1:
        differs = len(set(texts.values())) > 1
        changes["label_witness_differs" if differs else "label_witness"] += 1
    label = Label(text=trusted or "")
    if ".json" in files:
        label = _from_json(files[".json"], changes)
        if trusted is not None:
            if _trimmed(trusted) != _trimmed(label.text):
                raise Bad("ambiguous_label", f"labels differ: {plain(trusted, 40)} / {plain(label.text, 40)}")
            changes["label_witness"] += 1
    if not label.text.strip():
        raise Bad("empty_text", f"the label is {'blank' if label.text else 'empty'}")
    return label


def _trimmed(text: str) -> str:
    return text.replace("\r\n", "\n").removesuffix("\n")


def _from_json(data: bytes, changes: Counter[str]) -> Label:
    try:
        parsed = parse(data.removeprefix(b"\xef\xbb\xbf"))
    except Bad as bad:
        raise Bad(bad.reason, f".json: {bad.detail}") from None
    changes.update(parsed.changes)
    value = parsed.value
    if isinstance(value, str):
        return Label(text=value)
    if not isinstance(value, dict):
        raise Bad("bad_label", "the .json is neither an object with text or lines nor a text")
    text = value.get("text")
    if text is not None and not isinstance(text, str):
        raise Bad("wrong_type", f"the label's text is of type {type(text).__name__}")
    layout = None
    used = {"text", "lines", "reading_order", "size"}
    if "lines" in value:
        layout = _lines(value["lines"], value.get("reading_order"))
        in_order = sorted(range(len(layout)), key=lambda k: layout[k].order or 0)
        assembled = "\n".join(layout[k].text or "" for k in in_order)
        if text is not None and _trimmed(text) != assembled:
            raise Bad("ambiguous_label", f"text and lines differ: {plain(text, 40)} / {plain(assembled, 40)}")
        text = assembled if text is None else text
    if text is None:
        raise Bad("bad_label", f"the .json has neither text nor lines (found: {plain(', '.join(value), 60)})")
    return Label(
        text=text,
        layout=layout,
        stated_size=_size(value.get("size")),
        fields={key: inner for key, inner in value.items() if key not in used},
    )


def _size(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(type(side) is int and side > 0 for side in value):
        return value[0], value[1]
    raise Bad("bad_label", "size is no [height, width]")


def _lines(value: Any, order: Any) -> tuple[LayoutItem, ...]:
    if not isinstance(value, list) or not all(isinstance(line, dict) for line in value):
        raise Bad("bad_label", "lines is no list of objects")
    places = _order(order, len(value))
    return tuple(_line(line, places[number], number) for number, line in enumerate(value))


def _order(order: Any, count: int) -> list[int]:
    """Line -> place. Lines that the order leaves out follow in their own order."""
    if order is None:
        return list(range(count))
    whole = isinstance(order, list) and all(type(k) is int and 0 <= k < count for k in order)
    if not whole or len(set(order)) != len(order):
        raise Bad("bad_label", f"reading_order is no list of different line numbers below {count}")
    full = [*order, *(k for k in range(count) if k not in set(order))]
    places = [0] * count
    for place, line in enumerate(full):
        places[line] = place
    return places


def _line(line: Mapping[str, Any], place: int, number: int) -> LayoutItem:
    text = line.get("text")
    if not isinstance(text, str):
        raise Bad("bad_label", f"line {number} has no text")
    box = next((line[name] for name in _BOX_FIELDS if line.get(name) is not None), None)
    confidence = line.get("confidence")
    return LayoutItem(
        level="line",
        text=text,
        polygon=_polygon(box, number),
        order=place,
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
    )


def _polygon(box: Any, number: int) -> tuple[float, ...]:
    if box is None:
        return ()
    flat = (
        [value for point in box for value in (point if isinstance(point, list) else [point])]
        if isinstance(box, list)
        else []
    )
    if len(flat) < 4 or len(flat) % 2 or not all(type(value) in (int, float) for value in flat):
        raise Bad("bad_label", f"the box of line {number} is no list of coordinates")
    return tuple(map(float, flat))
