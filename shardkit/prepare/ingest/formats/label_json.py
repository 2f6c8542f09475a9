"""Label documents of pictures: which layouts are known, and one picture's label in them.

    map     {"1.png": "text" or {"text": ...} or {"lines": [...]}, ...}
    list    [{"image": "1.png", "text": "..."}, ...]
    pages   {"pages": [{"page": 2, "image": "2.png", "text": "..."}, ...]}      put in the order of their numbers
    stems   {"gt_1": [{"transcription": "...", "points": [[x, y], ...], "illegibility": false}, ...], ...}     ArT, LSVT
    forms   {"documents": [{"id", "document": [entities as in FUNSD], "img": {"fname", "width", "height"}}, ...]}     XFUND
    MMOCR and TextOCR documents

A picture is named by its path and never by its place. One that is named twice with different texts is ambiguous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.documents import Entries, Entry
from shardkit.prepare.ingest.containers.json_parts import Items
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats import funsd, mmocr
from shardkit.prepare.ingest.formats.label import Label, text_of
from shardkit.prepare.ingest.formats.label_list import draft
from shardkit.prepare.ingest.formats.ocr_label import from_object, trimmed
from shardkit.prepare.ingest.formats.paddleocr import names_image
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record

_IMAGE = ("image", "img", "image_path", "img_path", "file_name", "filename", "path")
_ENDINGS = (".jpg", ".png", ".jpeg", ".JPG", ".PNG")
_TEXT = ("text", "label", "transcription", "caption")


def entries(value: Any) -> Entries:
    """The pictures of a label document, each once.

    Raises:
        Bad: for a document of an unknown layout.
    """
    if mmocr.is_document(value):
        return mmocr.entries(value)
    if isinstance(value, dict) and isinstance(value.get("documents"), list | Items):
        return _forms(value["documents"])
    if isinstance(value, dict) and isinstance(value.get("pages"), list | Items):
        return _pages(value["pages"])
    if isinstance(value, dict) and value and all(map(names_image, value)):
        return _once([(image, label) for image, label in value.items()], Counter())
    if isinstance(value, dict) and value and all(isinstance(lines, list | Items) for lines in value.values()):
        return _stems(value)
    if isinstance(value, list | Items) and value and all(_image(entry) is not None for entry in value):
        return _once([(_image(entry) or "", entry) for entry in value], Counter())
    raise Bad(
        "bad_label",
        "the document is no list of labels: known are a map of pictures to texts, a list of {image, text}, pages, MMOCR, TextOCR, ArT",
    )


def _image(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((entry[name] for name in _IMAGE if isinstance(entry.get(name), str) and entry[name]), None)


def _pages(pages: list[Any]) -> Entries:
    """Pages in the order of their numbers; missing numbers between them are counted."""
    for place, page in enumerate(pages):
        if _image(page) is None or type(page.get("page")) is not int:
            raise Bad("bad_label", f"page {place} of the document has no image, or no page number")
    pages = sorted(pages, key=lambda page: page["page"])
    numbers = {page["page"] for page in pages}
    changes = Counter(page_missing=max(numbers) - min(numbers) + 1 - len(numbers)) if numbers else Counter()
    return _once([(_image(page) or "", page) for page in pages], +changes)


def _stems(document: Mapping[str, Sequence[Any]]) -> Entries:
    """The pictures of ArT and LSVT, which are named without their suffix.

    Raises:
        Bad: where the first line of one is no line.
    """
    for stem, lines in document.items():
        first = lines[0] if len(lines) else {"transcription": ""}
        if not isinstance(first, dict) or "transcription" not in first:
            raise Bad(
                "bad_label", f"the entry {plain(stem, 40)} of the document is no list of lines with a transcription"
            )
    return Entries(
        entries=(Entry(position=stem, value={"stem": stem, "lines": list(lines)}) for stem, lines in document.items())
    )


def _forms(documents: Sequence[Any]) -> Entries:
    """The forms of XFUND, by their pictures."""
    forms = []
    for number, one in enumerate(documents, 1):
        image = one.get("img") if isinstance(one, dict) else None
        if not isinstance(image, dict) or not isinstance(image.get("fname"), str):
            raise Bad("bad_label", f"form {number} of the document names no picture (img, fname)")
        rest = {key: inner for key, inner in one.items() if key not in ("document", "img")}
        forms.append((image["fname"], {**rest, "form": one.get("document"), "size": _size(image)}))
    return _once(forms, Counter())


def _size(image: Mapping[str, Any]) -> list[Any] | None:
    sides = [image.get("height"), image.get("width")]
    return None if None in sides else sides


def _once(found: list[tuple[str, Any]], changes: Counter[str]) -> Entries:
    """Entries by picture, in the order of their first mention."""
    labels: dict[str, list[Any]] = {}
    for image, label in found:
        labels.setdefault(image, []).append(label)
    return Entries(
        entries=tuple(Entry(position=image, value={"image": image, "labels": each}) for image, each in labels.items()),
        changes=changes,
    )


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one picture.

    Raises:
        Bad: with the reason.
    """
    if "entry" in record.value:
        yield from mmocr.drafts(record, config, reader)
        return
    changes = Counter(record.changes)
    if "stem" in record.value:
        names = [f"{record.value['stem']}{ending}" for ending in _ENDINGS]
        yield draft(record, reader.first_of(names, record.folder), _written(record.value["lines"], changes), changes)
        return
    labels = [_label(value, changes) for value in record.value["labels"]]
    for other in labels[1:]:
        if trimmed(other.text) != trimmed(labels[0].text):
            raise Bad("ambiguous_label", f"labels differ: {plain(labels[0].text, 40)} / {plain(other.text, 40)}")
        changes["label_witness"] += 1
    yield draft(record, record.value["image"], labels[0], changes)


def _written(lines: list[Any], changes: Counter[str]) -> Label:
    """The lines of a picture of ArT or LSVT; what they say beside text and place is `line_fields`."""
    if not all(isinstance(line, dict) for line in lines):
        raise Bad("bad_label", "a line of the picture is no object")
    known = ("transcription", "points", "illegibility")
    instances = [
        {"text": line.get("transcription"), "points": line.get("points"), "ignore": line.get("illegibility") is True}
        for line in lines
    ]
    label = mmocr.label_of({"instances": instances}, changes)
    extra = [{key: inner for key, inner in line.items() if key not in known} for line in lines]
    return replace(label, fields={"line_fields": extra} if any(extra) else {})


def _label(value: Any, changes: Counter[str]) -> Label:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "transcription" in value[0]:
        return _written(value, changes)
    if not isinstance(value, dict):
        return Label(text=text_of(value, "the label"))
    rest: Mapping[str, Any] = {key: inner for key, inner in value.items() if key not in _IMAGE}
    if funsd.is_form(rest):
        size = from_object({"text": "", "size": rest.get("size")}, Counter()).stated_size
        form = funsd.form({key: inner for key, inner in rest.items() if key != "size"}, changes)
        return replace(form, stated_size=size)
    name = next((name for name in _TEXT if name in rest), None)
    if name is not None:
        text_of(rest[name], name)
        rest = {"text": rest[name], **{key: inner for key, inner in rest.items() if key != name}}
    label = from_object(rest, changes)
    if label.silent:
        raise Bad("missing_field", f"the entry has neither text nor lines (found: {plain(', '.join(rest), 60)})")
    return label
