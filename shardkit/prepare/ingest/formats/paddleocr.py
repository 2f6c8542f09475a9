"""PaddleOCR label lists: one picture a line, its path and its label parted by the first tab.

    PATH TAB text                                             recognition
    PATH TAB [{"transcription": "...", "points": [[x, y], ...]}, ...]     detection; also key_cls, id, linking of forms
    PATH TAB {"height", "width", "ocr_info": [{"text", "bbox"}, ...]}     forms of XFUND as PaddleOCR first had them
    ["PATH", "PATH"] TAB text                                 several pictures of one text
    PATH id id id                                             token ids instead of a text, parted by spaces; with
                                                              --label-vocab they are spelled out, its first line being 1

A polygon that cannot be used loses its box and not the page. ### and * mark what nobody can read: boxes without a text.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.label import Label, lines_label, loose_polygon, text_of
from shardkit.prepare.ingest.formats.label_list import draft
from shardkit.prepare.ingest.label_vocab import load_vocabulary
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record
from shardkit.records import LayoutItem

CONTAINERS = ("lines",)

_ILLEGIBLE = ("###", "*")
_IDS = re.compile(r"(?P<image>\S+)(?P<ids>(?: +[0-9]{1,9})+) *")
_TEXTS = ("transcription", "text", "label")
_EXTRA = ("key_cls", "label", "id", "linking", "difficult")


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one line, or of each picture that it names.

    Raises:
        Bad: with the reason.
    """
    line: str = record.value
    changes = Counter(record.changes)
    path, tab, text = line.partition("\t")
    if not tab:
        image, ids = _token_ids(line)
        text = "" if config.label_vocab is None else _spelled(ids, load_vocabulary(config.label_vocab))
        yield draft(record, image, Label(text=text, ocr_labels=ids), changes)
        return
    label = _label(text, changes)
    images = _images(path)
    for k, named in enumerate(images):
        image = _near(named, record.folder, reader)
        position = f"{record.position}#{k + 1}" if len(images) > 1 else record.position
        yield draft(record, image, label, changes if k == 0 else Counter(), position=position)


def is_line(line: str) -> bool:
    """Whether a line looks like an entry of such a list."""
    path, tab, _ = line.partition("\t")
    if tab:
        return names_image(path) or (path.startswith("[") and names_image(path.rstrip('"] ')))
    found = _IDS.fullmatch(line)
    return found is not None and names_image(found["image"])


def names_image(path: str) -> bool:
    """Whether a path ends like that of a picture."""
    return os.path.splitext(path.strip())[1].lstrip(".").lower() in {s.lstrip(".") for s in IMAGE_SUFFIXES}


def _token_ids(line: str) -> tuple[str, tuple[int, ...]]:
    found = _IDS.fullmatch(line)
    if found is None or not names_image(found["image"]):
        raise Bad("bad_label", f"no tab parts path and text: {plain(line, 40)}")
    return found["image"], tuple(map(int, found["ids"].split()))


def _spelled(ids: tuple[int, ...], labels: tuple[str, ...]) -> str:
    """The text that ids write: they count the lines of the vocabulary from 1."""
    for one in ids:
        if not 1 <= one <= len(labels):
            raise Bad("image_labels", f"id {one} is none of the vocabulary, which has {len(labels)} lines")
    return "".join(labels[one - 1] for one in ids)


def _images(path: str) -> list[str]:
    if not path.startswith("["):
        return [path]
    try:
        paths = parse(path.encode()).value
    except Bad:
        return [path]  # a file may be called so
    if not isinstance(paths, list) or not paths or not all(isinstance(one, str) for one in paths):
        raise Bad("image_value", f"the list of pictures is none of paths: {plain(path, 40)}")
    return paths


def _near(image: str, folder: str, reader: Reader) -> str:
    """The path of a picture from the list. PPOCRLabel begins paths with the name of the folder that the list lies in."""
    above, slash, rest = image.replace("\\", "/").partition("/")
    if not slash or above != reader.folder_name(folder):
        return image
    return reader.first_of([image, rest], folder)


def _label(text: str, changes: Counter[str]) -> Label:
    is_form = text.startswith('{"') and '"ocr_info"' in text
    if not is_form and not text.lstrip().startswith("[{") and text.strip() != "[]":
        return Label(text=text)
    parsed = parse(text.encode())
    changes.update(parsed.changes)
    if is_form:
        return _form(parsed.value, changes)
    return _lines(parsed.value, changes)


def _form(form: dict[str, Any], changes: Counter[str]) -> Label:
    entries = form.get("ocr_info")
    if not isinstance(entries, list):
        raise Bad("bad_label", "ocr_info is no list")
    height, width = form.get("height"), form.get("width")
    label = _lines(entries, changes)
    if not (isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0):
        return label
    return replace(label, stated_size=(height, width))


def _lines(entries: list[Any], changes: Counter[str]) -> Label:
    items, extra = [], []
    for k, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise Bad("bad_label", f"entry {k} of the line is no object")
        used = next((name for name in _TEXTS if name in entry), "transcription")
        written = text_of(entry.get(used), f"the transcription of entry {k}")
        legible = written.strip() not in _ILLEGIBLE and bool(written.strip())
        if not legible:
            changes["illegible_text" if written.strip() else "line_without_text"] += 1
        points = loose_polygon(entry.get("points", entry.get("bbox")), changes)
        items.append(
            LayoutItem(
                level="line",
                text=written if legible else None,
                polygon=points,
                order=k,
                confidence=_confidence(entry.get("score")),
            )
        )
        extra.append({key: entry[key] for key in _EXTRA if key in entry and key != used})
    return lines_label(items, fields={"line_fields": extra} if any(extra) else {})


def _confidence(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
