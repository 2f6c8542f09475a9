"""The label of a page or line, from the label files of its stem: a table of readers, and one rule for how they agree.

    .gt.txt .txt    the text; a DocBank page or a list of quads where every line is one
    .json           {"text": "..."}, a FUNSD form, a result of PaddleOCR 3, or lines and their order:
                    {"lines": [{"text": "...", "bbox": [x0, y0, x1, y1]}, ...], "reading_order": [1, 0, ...], "size": [H, W]}
    .csv            quads: x1,y1,...,x4,y4,text
    .xml            ALTO (also .alto.xml), PAGE-XML (also .page.xml), hOCR, or the record of an IIT-CDIP document
    .hocr .html     hOCR

Of several label files of one stem the one with the layout is the label and a text file of equal text is a witness; texts
that differ make the label ambiguous, and the order of files in a folder decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats import docbank, funsd, hocr, iit_cdip, layout_xml, paddle_result, quads
from shardkit.prepare.ingest.formats.label import Label, Read, polygon
from shardkit.prepare.ingest.formats.text_file import decoded, json_of
from shardkit.prepare.ingest.formats.xml_safe import parse_xml
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem

TEXT_LABELS = (".gt.txt", ".txt")
"""In order of trust."""

_BOX_FIELDS = ("bbox", "box", "polygon", "points", "quad")


def read_label(
    files: Mapping[str, bytes],
    changes: Counter[str],
    readers: Mapping[str, Read] | None = None,
    more: Sequence[tuple[str, bytes]] = (),
) -> Label:
    """The label that the label files of one stem give together.

    Args:
        files: suffix -> bytes; at least one.
        readers: suffix -> reader, for all suffixes of `files`; `READERS` unless a format has its own.
        more: (suffix, bytes) of layout files of the same page in other folders.

    Raises:
        Bad: where they disagree, are empty, or are not what they must be.
    """
    table = READERS if readers is None else readers
    labels = {suffix: table[suffix](files[suffix], changes) for suffix in table if suffix in files}
    others = [(suffix, table[suffix](data, changes)) for suffix, data in more]
    texts = [labels[suffix] for suffix in TEXT_LABELS if suffix in labels and not labels[suffix].silent]
    structured = [label for suffix, label in labels.items() if suffix not in TEXT_LABELS and not label.silent]
    if len(texts) > 1:
        differs = len({label.text for label in texts}) > 1
        changes["label_witness_differs" if differs else "label_witness"] += 1
    chosen = [*structured, *(label for _, label in others if not label.silent), *texts[:1]]
    everything = [*labels.values(), *(label for _, label in others)]
    if not chosen:
        found = ", ".join(key for label in everything for key in label.fields)
        raise Bad("bad_label", f"the label has neither text nor lines (found: {plain(found or 'nothing', 60)})")
    label = chosen[0]
    for witness in chosen[1:]:
        if not _agree(witness.text, label.text, is_layout=not _LAYOUTS.isdisjoint(labels)):
            raise Bad("ambiguous_label", f"labels differ: {plain(witness.text, 40)} / {plain(label.text, 40)}")
        changes["label_witness"] += 1
    silent = {key: value for other in everything if other.silent for key, value in other.fields.items()}
    if silent:
        label = replace(label, fields={**silent, **label.fields})
    if not label.text.strip() and not _only_boxes(label):
        raise Bad("empty_text", f"the label is {'blank' if label.text else 'empty'}")
    return label


def _only_boxes(label: Label) -> bool:
    """Whether the label marks where something is written and never says what."""
    return bool(label.layout) and all(item.text is None for item in label.layout or ())


def _agree(one: str, two: str, *, is_layout: bool) -> bool:
    """Whether two labels say the same. How much space parts the words of a layout is nothing that is written."""
    return one.split() == two.split() if is_layout else trimmed(one) == trimmed(two)


def trimmed(text: str) -> str:
    """`text` as witnesses are compared."""
    return text.replace("\r\n", "\n").removesuffix("\n")


def from_text(data: bytes, changes: Counter[str]) -> Label:
    """The label in a text file, by what its lines are."""
    text = decoded(data, changes)
    if docbank.is_page(text):
        return docbank.page(text, changes)
    if quads.are_quads(text):
        return quads.label(text, changes)
    if iit_cdip.has_page_marks(text):
        return iit_cdip.paged(text, changes)
    return Label(text=text)


def ground_truth(data: bytes, changes: Counter[str]) -> Label:
    """The label in a text file that is nothing but text."""
    return Label(text=decoded(data, changes))


def from_json(data: bytes, changes: Counter[str]) -> Label:
    """The label in a JSON file.

    Raises:
        Bad: where it is neither a text nor an object.
    """
    try:
        parsed = parse(json_of(data, changes))
    except Bad as bad:
        raise Bad(bad.reason, f".json: {bad.detail}") from None
    changes.update(parsed.changes)
    value = parsed.value
    if isinstance(value, str):
        return Label(text=value)
    if not isinstance(value, dict):
        raise Bad("bad_label", "the .json is neither an object with text or lines nor a text")
    if funsd.is_form(value):
        return funsd.form(value, changes)
    result = value["res"] if isinstance(value.get("res"), dict) else value
    return paddle_result.label(result, changes) if paddle_result.is_result(result) else from_object(value, changes)


def from_xml(data: bytes, changes: Counter[str]) -> Label:
    """The label in an XML file: a layout of some dialect, or the record of a document.

    Raises:
        Bad: where it is none.
    """
    root = parse_xml(data)
    if iit_cdip.is_record(root):
        return iit_cdip.record(root, changes)
    return layout_xml.label(root, changes)


READERS: dict[str, Read] = {
    ".gt.txt": ground_truth,
    ".txt": from_text,
    ".json": from_json,
    ".csv": quads.read,
    **dict.fromkeys((".alto.xml", ".page.xml", ".xml"), from_xml),
    **dict.fromkeys((".hocr", ".html", ".htm"), hocr.read),
}
"""Suffix of a label file -> its reader. The first of several that is no text file is the label."""
_LAYOUTS = frozenset((".alto.xml", ".page.xml", ".xml", ".hocr", ".html", ".htm"))
LABELS = tuple(READERS)
"""Suffixes of the label files that are known."""


def from_object(value: Mapping[str, Any], changes: Counter[str]) -> Label:
    """The label in a JSON object with text, or with lines and their order.

    Raises:
        Bad: where it is none.
    """
    text = value.get("text")
    if text is not None and not isinstance(text, str):
        raise Bad("wrong_type", f"the label's text is of type {type(text).__name__}")
    layout = reading_order = None
    used = {"text", "lines", "reading_order", "ocr_labels", "size"}
    if "lines" not in value:
        reading_order = _ids(value, "reading_order")
        if reading_order is not None and len(set(reading_order)) != len(reading_order):
            raise Bad("image_labels", "reading_order names a place twice")
    else:
        layout = _lines(value["lines"], value.get("reading_order"))
        order = value.get("reading_order")
        changes["order_completed"] += order is not None and len(order) < len(layout)
        in_order = sorted(range(len(layout)), key=lambda k: layout[k].order or 0)
        assembled = "\n".join(layout[k].text or "" for k in in_order)
        if text is not None and trimmed(text) != assembled:
            raise Bad("ambiguous_label", f"text and lines differ: {plain(text, 40)} / {plain(assembled, 40)}")
        text = assembled if text is None else text
    return Label(
        text=text or "",
        silent=text is None,
        layout=layout,
        stated_size=_size(value.get("size")),
        ocr_labels=_ids(value, "ocr_labels"),
        reading_order=reading_order,
        fields={key: inner for key, inner in value.items() if key not in used},
    )


def _ids(value: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    """The integers of a field, flat or in a list of one, as the row schema has them; None where it is absent or null."""
    ids = value.get(name)
    if isinstance(ids, list) and len(ids) == 1 and (ids[0] is None or isinstance(ids[0], list)):
        ids = ids[0]
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(type(one) is int and 0 <= one < 1 << 31 for one in ids):
        raise Bad("image_labels", f"{name} is no list of integers from 0")
    return tuple(ids)


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
    told = set(order)
    full = [*order, *(k for k in range(count) if k not in told)]
    places = [0] * count
    for place, line in enumerate(full):
        places[line] = place
    return places


def _line(line: Mapping[str, Any], place: int, number: int) -> LayoutItem:
    text = line.get("text")
    if not isinstance(text, str):
        raise Bad("bad_label", f"line {number} has no text")
    box = next((line[name] for name in _BOX_FIELDS if line.get(name) is not None), None)
    points = () if box is None else polygon(box)
    if points is None:
        raise Bad("bad_label", f"the box of line {number} is no list of coordinates")
    confidence = line.get("confidence")
    return LayoutItem(
        level="line",
        text=text,
        polygon=points,
        order=place,
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
    )
