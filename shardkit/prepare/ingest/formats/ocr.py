"""ocr: pictures of pages or lines with what is written on them.

    folders   STEM.png (jpg, tif, webp, bmp) with a label file of a suffix in `LABELS`
    lists     a .txt or .json that names the pictures and says what is on each; a gt.mat of SynthText

What a label file is, its own content says. Every page of a multi-page TIFF is a record of its own; its label has as many pages, parted by form feeds.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats import label_json, mmocr, paddleocr, quads, synthtext, word_list
from shardkit.prepare.ingest.formats.label import Label, Read
from shardkit.prepare.ingest.formats.label_list import annotator, draft
from shardkit.prepare.ingest.formats.ocr_label import LABELS, READERS, read_label
from shardkit.prepare.ingest.formats.tiff_pages import page_frames
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record, exclusion
from shardkit.records import Exclusion, Relation, Segment

CONTAINERS = ("files", "lines", "json", "mat")
FIELDS: tuple[str, ...] = ()
_PICTURE = re.compile(rb"\.(?:jpe?g|png|tiff?|bmp|webp|gif)\"", re.IGNORECASE)
"""The end of a picture's name in JSON."""

_STATES = frozenset(["filestate.txt"])
"""PPOCRLabel notes there which pictures were looked at: PATH TAB 1, which reads like a label."""

NAMING = replace(quads.NAMING, label_ends=("_res",))
"""PaddleOCR 3 puts _res behind the names of its results."""
entries = label_json.entries

__all__ = ["CONTAINERS", "FIELDS", "LABELS", "NAMING", "drafts", "entries", "is_list", "pair_drafts"]


def is_list(name: str, head: bytes) -> bool:
    """Whether a file beside pictures is a list of their labels, by its name and first bytes."""
    if name.rpartition("/")[2].lower() in _STATES:
        return False
    if name.lower().endswith(".json"):
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        # The forms of XFUND name their pictures behind their words; ArT and LSVT by their stems.
        named = _PICTURE.search(head) is not None or any(key in head for key in (b'"documents"', b'"transcription"'))
        return (start[:1] in (b"{", b"[") and named) or any(map(paddleocr.is_line, _lines(head)[:1]))
    if not name.lower().endswith(".txt"):
        return True
    for line in _lines(head)[:1]:
        if paddleocr.is_line(line) or word_list.quoted(line) is not None:
            return True
        return line[0] == "{" and _PICTURE.search(head) is not None
    return False


def is_mmocr_list(name: str, head: bytes) -> bool:
    """`is_list`, with the lists of MMOCR 0.x."""
    return is_list(name, head) or (
        name.lower().endswith(".txt") and word_list.is_spaced(_lines(head)[:-1] or _lines(head))
    )


def _lines(head: bytes) -> list[str]:
    """The lines in the first bytes of a file that are not blank; the last one may be cut."""
    return [line for line in head.decode("utf-8", "replace").lstrip("\ufeff").split("\n") if line.strip()]


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft | Exclusion]:
    """The drafts of one record, by what it is.

    Raises:
        Bad: with the reason.
    """
    value = record.value
    if isinstance(value, Pair):
        yield from pair_drafts(record, config, reader)
    elif isinstance(value, str):
        word = word_list.quoted(value)
        if word is not None:
            yield draft(record, word[0], Label(text=word[1]), Counter(record.changes))
            return
        yield from (mmocr if value.startswith("{") else paddleocr).drafts(record, config, reader)
    elif "wordBB" in value:
        yield from synthtext.drafts(record, config, reader)
    else:
        yield from label_json.drafts(record, config, reader)


def pair_drafts(
    record: Record, config: IngestConfig, reader: Reader, readers: Mapping[str, Read] = READERS
) -> Iterator[Draft | Exclusion]:
    """A draft for each page of one image file.

    Args:
        readers: suffix -> reader of the label files that the format has.

    Raises:
        Bad: with the reason.
    """
    pair: Pair = record.value
    changes: Counter[str] = Counter()
    label = _label(pair, config, reader, changes, readers)
    pictures = _pictures(pair, record, label, reader)
    pages = len(pictures)
    labels = [label] if pages == 1 and (label is None or len(label.pages) < 2) else _pages(label, pages)
    for page, (one, (name, ref)) in enumerate(zip(labels, pictures, strict=True)):
        position = pair.stem if pages == 1 else f"{pair.stem}#{page + 1}"
        if one is not None and one.bad is not None:
            yield exclusion(name, position, one.bad.reason, one.bad.detail)
            continue
        if isinstance(ref, Bad):
            yield exclusion(name, position, ref.reason, ref.detail)
            continue
        has_text = one is not None and bool(one.text.strip())
        if one is not None and not has_text:
            changes["page_without_text"] += 1
        yield Draft(
            input=name,
            position=position,
            segments=(
                Segment(kind="image", image=0),
                *([Segment(kind="text", text=one.text)] if one is not None and has_text else []),
            ),
            images=(_image(ref, one),),
            relations=(_relation(one, has_text=has_text),) if one is not None else (),
            metadata=_metadata(one, pair.stem, page, pages),
            group=_group(name, pair.stem, one),
            changes=+changes if page == 0 else Counter(),
        )


def _image(ref: ImageRef, label: Label | None) -> ImageRef:
    if label is None:
        return ref
    return replace(
        ref,
        stated_size=label.stated_size,
        layout=label.layout,
        page_size=label.page_size,
        layout_size=label.grid,
        ocr_labels=label.ocr_labels,
        reading_order=label.reading_order,
    )


def _pictures(pair: Pair, record: Record, label: Label | None, reader: Reader) -> list[tuple[str, ImageRef | Bad]]:
    """(input, image, or why there is none) of every page: what the pages of a label name, or the pages of one image file."""
    named = _named(pair, label) if label is not None else []
    if label is not None and named:
        return [_picture_of(page, name, pair, reader) for page, name in zip(label.pages, named, strict=True)]
    if pair.images or label is None or not label.image:
        name = pair.image()
        ref = _picture(name, reader.below_root(name))
    else:
        # The label was given without the folder of its image.
        path = reader.first_of([label.image, base_name(label.image) or label.image], record.folder)
        name, data = record.input, reader.image(ImageRef(path=path), record.folder)
        ref = _picture(path, data)
    frames = page_frames(ref.data or b"", None if label is None else len(label.pages) or len(_texts(label)))
    return [(name, replace(ref, frame=frame, has_siblings=len(frames) > 1)) for frame in frames]


def _named(pair: Pair, label: Label) -> list[str | None]:
    """The image of each page of a label whose pages name images of their own: None for one that is not there. Nothing
    where they name one for all, or the images are others."""
    said = [page.image.replace("\\", "/").rpartition("/")[2] for page in label.pages]
    if not pair.images or len(said) < 2 or "" in said or len(set(said)) < len(said):
        return []
    by_name = {name.rpartition("/")[2]: name for name in pair.images}
    by_stem = {os.path.splitext(name)[0]: path for name, path in by_name.items()}
    found = [by_name.get(name) or by_stem.get(os.path.splitext(name)[0]) for name in said]
    return found if len(set(found) - {None}) == len(pair.images) else []


def _picture_of(page: Label, name: str | None, pair: Pair, reader: Reader) -> tuple[str, ImageRef | Bad]:
    if name is None:
        return pair.labels[0][1], Bad("asset_missing", f"there is no file {plain(page.image)}")
    try:
        return name, _picture(name, reader.below_root(name))
    except Bad as bad:
        return name, bad


def _picture(name: str, data: bytes) -> ImageRef:
    return ImageRef(data=data, name=base_name(name), origin=name)


def _metadata(label: Label | None, stem: str, page: int, pages: int) -> dict[str, Any]:
    """What the label says besides, and where the page belongs."""
    place: dict[str, Any] = {"document_id": stem, "page": page + 1, "pages": pages} if pages > 1 else {}
    if label is None:
        return place
    if label.document is not None:
        place.update(label.document(stem))
    return {**place, **label.fields}


def _label(
    pair: Pair, config: IngestConfig, reader: Reader, changes: Counter[str], readers: Mapping[str, Read]
) -> Label | None:
    files = pair.label_files()
    if not files:
        if config.on_missing_label == "keep":
            changes["label_missing"] += 1
            return None
        raise Bad("missing_label", f"{pair.image()} has no label ({', '.join(readers)})")
    read = {kind: reader.below_root(file) for kind, file in files.items()}
    more = [(kind, reader.below_root(file)) for kind, file in pair.more_label_files()]
    return read_label(read, changes, readers, more)


def _relation(label: Label, *, has_text: bool) -> Relation:
    confidence = label.fields.get("confidence")
    return Relation(
        kind="ocr",
        images=(0,),
        segments=(1,) if has_text else (),
        annotator=annotator(label.fields),
        confidence=confidence if isinstance(confidence, float) else None,
    )


def _pages(label: Label | None, pages: int) -> list[Label | None]:
    if label is None:
        return [None] * pages
    parts = list(label.pages) or [replace(label, text=text.strip("\n")) for text in _texts(label)]
    if len(parts) != pages or label.layout is not None:
        raise Bad("label_pages", f"the image file has {pages} pages, its label {len(parts)}")
    return [*parts]


def _texts(label: Label) -> list[str]:
    """The text of each page, as form feeds part it."""
    return label.text.removesuffix("\f").split("\f")


def _group(name: str, stem: str, label: Label | None) -> str:
    """The document that the stem names, else the folder below the input root, else the file.

    A folder that only parts pictures from labels is no part of the stem, and no book.
    """
    named = {} if label is None or label.document is None else label.document(stem)
    document = named.get("document_id")
    folder, slash, _ = stem.partition("/")
    return str(document) if document is not None else folder if slash else name
