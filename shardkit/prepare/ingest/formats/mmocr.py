"""MMOCR and TextOCR: JSON documents that list pictures with the texts on them.

    MMOCR 1.x   {"metainfo": {...}, "data_list": [{"img_path", "height", "width", "instances": [{"text", "polygon" or
                "bbox", "ignore"}]}]}
    MMOCR KIE   JSON lines of {"file_name", "height", "width", "annotations": [{"box", "text", "label"}]}
    recognition JSON lines of {"filename", "text"}; of MMOCR 0.x also lines of NAME.png text
    TextOCR     {"imgs": {ID: {"file_name", "width", "height"}}, "anns": {ID: {"image_id", "utf8_string", "points"}},
                "imgToAnns": {ID: [ID, ...]}}; COCO-Text alike, also without imgToAnns

Texts that are to be ignored, and TextOCR's `.`, are boxes without a text. Paths of these sets begin with folders of the
machine that wrote them: where nothing lies at a path, its shorter ends are tried, in a document only where all its
file names differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.documents import Entries, Entry
from shardkit.prepare.ingest.containers.json_parts import Items, Members
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.label import Label, lines_label, loose_polygon, text_of
from shardkit.prepare.ingest.formats.label_list import draft
from shardkit.prepare.ingest.formats.word_list import spaced
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record
from shardkit.records import LayoutItem

CONTAINERS = ("json", "jsonl", "lines")

_PATHS = ("img_path", "file_name", "filename")
_INSTANCES = ("instances", "annotations")
_ILLEGIBLE = ("###",)
_TEXTOCR_ILLEGIBLE = "."


def is_document(value: Any) -> bool:
    """Whether a JSON value is one of these documents."""
    return isinstance(value, dict) and (isinstance(value.get("data_list"), list | Items) or _is_textocr(value))


def is_entry(value: Any) -> bool:
    """Whether a JSON value is an entry of such a list."""
    return (
        isinstance(value, dict)
        and any(isinstance(value.get(name), str) for name in _PATHS)
        and ("text" in value or any(name in value for name in _INSTANCES))
    )


def entries(value: Any) -> Entries:
    """The pictures of a document, by the name that the document gives them.

    Raises:
        Bad: for another document.
    """
    if not is_document(value):
        raise Bad("bad_label", "the document is neither MMOCR's (data_list) nor TextOCR's (imgs, anns, imgToAnns)")
    images = _TextOcr(value) if _is_textocr(value) else value["data_list"]
    # Paths first, then each entry by itself: a large document gives its entries again.
    names = [_path(image) or f"entry {k + 1}" for k, image in enumerate(images)]
    shorten = len({name.rpartition("/")[2] for name in names}) == len(names)
    each = images.whole() if isinstance(images, _TextOcr) else images
    return Entries(
        entries=(
            Entry(position=name, value={"entry": image, "shorten": shorten})
            for name, image in zip(names, each, strict=True)
        )
    )


def drafts(record: Record, _config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one picture.

    Raises:
        Bad: with the reason.
    """
    changes = Counter(record.changes)
    value = record.value
    shorten = True
    if isinstance(value, str) and not value.lstrip().startswith("{"):
        pair = spaced(value)
        if pair is None:
            raise Bad("bad_label", f"the line is neither JSON nor a picture, a space and a text: {plain(value, 40)}")
        value = {"filename": pair[0], "text": pair[1]}
    elif isinstance(value, str):
        parsed = parse(value.encode())
        changes.update(parsed.changes)
        value = parsed.value
    elif isinstance(value, dict) and "entry" in value:
        value, shorten = value["entry"], value["shorten"]
    path = _path(value)
    if path is None:
        raise Bad("missing_field", f"the entry names no picture ({', '.join(_PATHS)})")
    yield draft(record, path, label_of(value, changes), changes, shorten=shorten)


def _path(entry: Any) -> str | None:
    if not isinstance(entry, dict):
        return None
    return next((entry[name] for name in _PATHS if isinstance(entry.get(name), str) and entry[name]), None)


def label_of(entry: Mapping[str, Any], changes: Counter[str]) -> Label:
    """What an entry says is written on its picture.

    Raises:
        Bad: where its instances are none.
    """
    name = next((name for name in _INSTANCES if name in entry), None)
    used = {*_PATHS, "height", "width", name}
    if name is None:
        fields = {key: value for key, value in entry.items() if key not in used | {"text"}}
        return Label(text=text_of(entry.get("text"), "the text"), fields=fields)
    instances = entry[name]
    if not isinstance(instances, list) or not all(isinstance(one, dict) for one in instances):
        raise Bad("bad_label", f"{name} is no list of objects")
    items = [_item(one, k, changes) for k, one in enumerate(instances)]
    fields = {key: value for key, value in entry.items() if key not in used}
    kinds = [one.get("label") for one in instances]
    if any(kind is not None for kind in kinds):
        fields["line_labels"] = kinds
    return lines_label(items, stated_size=_size(entry), fields=fields)


def _item(one: Mapping[str, Any], k: int, changes: Counter[str]) -> LayoutItem:
    """An instance as a line. A cropped line has no box, because it is the whole picture."""
    box = next((one[key] for key in ("polygon", "box", "bbox", "points", "quad") if one.get(key) is not None), None)
    text = one.get("text")
    if text is not None:
        text = text_of(text, f"the text of instance {k}")
    if one.get("ignore") or (text is not None and (text in _ILLEGIBLE or not text.strip())):
        changes["illegible_text"] += 1
        text = None
    return LayoutItem(level="line", text=text, polygon=() if box is None else loose_polygon(box, changes), order=k)


def _size(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    height, width = entry.get("height"), entry.get("width")
    if isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0:
        return height, width
    return None


def _is_textocr(value: Mapping[str, Any]) -> bool:
    return all(isinstance(value.get(name), dict | Members) for name in ("imgs", "anns"))


class _TextOcr:
    """The pictures of a TextOCR document in the form of MMOCR's, in the order of the document."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._images: Mapping[str, Any] = value["imgs"]
        self._anns: Mapping[str, Any] = value["anns"]
        listed = value.get("imgToAnns")
        self._names: Mapping[str, Any] = listed if isinstance(listed, dict | Members) else _by_image(self._anns)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The pictures without what is written on them.

        Raises:
            Bad: where one is no object.
        """
        for key, image in self._images.items():
            if not isinstance(image, dict):
                raise Bad("bad_label", f"imgs has an entry {plain(key)} that is no object")
            yield {name: inner for name, inner in image.items() if name not in ("id", *_INSTANCES)}

    def whole(self) -> Iterator[dict[str, Any]]:
        """The pictures with what is written on them."""
        for key, entry in zip(self._images, self, strict=True):
            names = self._names.get(key) or []
            anns = [self._anns.get(str(name)) for name in names] if isinstance(names, list) else [None]
            # An entry that is no list of objects is excluded where it is read, and harms no neighbour.
            entry["instances"] = [_instance(ann) if isinstance(ann, dict) else ann for ann in anns]
            yield {**entry, "document_id": key}


def _by_image(anns: Mapping[str, Any]) -> dict[str, list[str]]:
    """Picture -> names of its annotations, by what they say themselves."""
    names: dict[str, list[str]] = {}
    for name, ann in anns.items():
        if isinstance(ann, dict):
            names.setdefault(str(ann.get("image_id")), []).append(name)
    return names


def _instance(ann: Mapping[str, Any]) -> dict[str, Any]:
    text = ann.get("utf8_string")
    points = ann.get("points")
    if points is None and isinstance(ann.get("bbox"), list) and len(ann["bbox"]) == 4:
        x, y, width, height = ann["bbox"]
        points = [x, y, x + width, y + height] if all(type(v) in (int, float) for v in ann["bbox"]) else None
    return {"text": text, "polygon": points, "ignore": text == _TEXTOCR_ILLEGIBLE}
