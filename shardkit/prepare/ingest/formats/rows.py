"""rows: our own row schema, as JSON lines, a JSON array or Parquet.

    {"text": "<image> a cat", "images": ["cat.jpg"], ...}

`text` is required; each `<image>` in it is the place of the next image, and their numbers must agree. Fields that are not
of the schema are kept as metadata. A row that `shardkit export` wrote has `_shardkit`, which see in exported.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft, ImageRef
from shardkit.prepare.ingest.formats.exported import OWN, PLACEHOLDER, restored, stated
from shardkit.prepare.ingest.formats.fields import annotator_of, text_field
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("jsonl", "parquet", "arrow", "mds", "json")
FIELDS = ("text", "images", "image_sizes", "ocr_labels", "reading_order")
REQUIRED = (("text", ("text",)),)
"""What --field can map, and what does not go into metadata. `videos` and `video_sizes` are kept there, untouched."""


def drafts(record: Record, config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one row.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    values = {name: row.get(config.fields.get(name, name)) for name in FIELDS}
    text = text_field(row, config.fields.get("text", "text"), blank=True)
    entries = values["images"]
    if entries is None:
        entries = []
    elif not isinstance(entries, list):
        entries = [entries]
    if row.get(OWN) is not None:
        yield _exported(record, config, values, text, entries)
        return
    pieces = text.split(PLACEHOLDER)
    if len(pieces) - 1 != len(entries):
        raise Bad(
            "placeholder_count",
            f"the text has {len(pieces) - 1} {PLACEHOLDER} marks, the row has {len(entries)} images",
        )
    if not entries and not text.strip():
        raise Bad("empty_text", "the text is empty or blank and there is no image")
    images = _labelled([image_ref(entry) for entry in entries], values)
    used = {OWN, *(config.fields.get(name, name) for name in FIELDS)}
    yield Draft(
        input=record.input,
        position=record.position,
        folder=record.folder,
        segments=_segments(pieces),
        images=images,
        relations=_relations(images, annotator_of(row)),
        metadata={key: value for key, value in row.items() if key not in used},
        changes=record.changes,
    )


def _exported(record: Record, config: IngestConfig, values: Mapping[str, Any], text: str, entries: list[Any]) -> Draft:
    """The draft of a row that export wrote.

    Fields that were put beside the exported ones since then become metadata, as in any row.
    """
    own = stated(record.value[OWN])
    images = restored(own, text, _labelled([image_ref(entry) for entry in entries], values))
    used = {OWN, *(config.fields.get(name, name) for name in FIELDS)}
    beside = {key: value for key, value in record.value.items() if key not in used and value is not None}
    for key, value in beside.items():
        if own.metadata.get(key, value) != value:
            raise Bad("own_object", f"{OWN}.metadata.{plain(key)} and the row's {plain(key)} differ")
    return Draft(
        input=record.input,
        position=record.position,
        folder=record.folder,
        segments=own.segments,
        images=images,
        relations=own.relations,
        metadata={**beside, **own.metadata},
        source=None if config.source is not None else own.source,
        group=own.group,
        changes=record.changes,
    )


def _segments(pieces: list[str]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    for number, piece in enumerate(pieces):
        if number:
            segments.append(Segment(kind="image", image=number - 1))
        if piece:
            segments.append(Segment(kind="text", text=piece))
    return tuple(segments)


def _relations(images: tuple[ImageRef, ...], annotator: str | None) -> tuple[Relation, ...]:
    places = tuple(range(len(images)))
    relations = [Relation(kind="interleaved", images=places, annotator=annotator)] if images else []
    labelled = tuple(k for k, image in enumerate(images) if image.ocr_labels is not None)
    if labelled:
        relations.append(Relation(kind="ocr", images=labelled, scope="image", annotator=annotator))
    return tuple(relations)


def _labelled(images: list[ImageRef], values: Mapping[str, Any]) -> tuple[ImageRef, ...]:
    """The images with their stated sizes, labels and orders."""
    sizes = _sizes(values["image_sizes"], len(images))
    labels = _per_image(values["ocr_labels"], len(images), "ocr_labels")
    orders = _per_image(values["reading_order"], len(images), "reading_order")
    for order in orders:
        if order is not None and len(set(order)) != len(order):
            raise Bad("image_labels", "reading_order names a place twice")
    return tuple(
        replace(image, stated_size=sizes[k], ocr_labels=labels[k], reading_order=orders[k])
        for k, image in enumerate(images)
    )


def _sizes(value: Any, count: int) -> list[tuple[int, int] | None]:
    if not value:
        return [None] * count
    if not isinstance(value, list):
        raise Bad("image_sizes_wrong", "image_sizes is no list of [height, width]")
    if count == 1 and len(value) == 2 and all(map(_is_count, value)):
        value = [value]
    if len(value) != count:
        raise Bad("image_sizes_count", f"image_sizes has {len(value)} entries, the row has {count} images")
    for size in value:
        if not (isinstance(size, list) and len(size) == 2 and all(map(_is_count, size))):
            raise Bad("image_sizes_wrong", "an entry of image_sizes is no [height, width]")
    return [(size[0], size[1]) for size in value]


def _per_image(value: Any, count: int, name: str) -> list[tuple[int, ...] | None]:
    """One list of integers from 0, or None, for each image; a flat list is the short form for one image."""
    if value is None:
        return [None] * count
    if not isinstance(value, list):
        raise Bad("image_labels", f"{name} is no list")
    if count == 1 and all(map(_is_count, value)) and value:
        value = [value]
    if len(value) != count:
        raise Bad("image_labels", f"{name} has {len(value)} lists, the row has {count} images")
    for entry in value:
        if entry is not None and not (isinstance(entry, list) and all(map(_is_count, entry))):
            raise Bad("image_labels", f"{name} holds something that is no list of integers from 0")
    return [None if entry is None else tuple(entry) for entry in value]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
