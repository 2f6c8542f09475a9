"""An example as a row that others can read: the row schema, and `_shardkit` for what the schema has no field for.

    {"text": "<image>a cat", "images": [...], "image_sizes": [[H, W]], "_shardkit": {...}}

`_shardkit` has all that `shardkit ingest rows` needs to make the very same example again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from shardkit.records import Example, Image, LayoutItem, Relation, Segment

PLACEHOLDER = "<image>"
OWN = "_shardkit"
VERSION = 1
"""Of the form of `_shardkit`."""
VIDEO_FIELDS = ("videos", "video_sizes")
"""Fields of the row schema that are kept as metadata."""

Origin = Mapping[str, str | None]
"""Where an image came from: source, revision, retrieved_at, input, position, origin, licence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """An example on its way out."""

    number: int
    """Row in its file, from 0."""
    example: Example
    digests: tuple[str, ...]
    """sha256 of the stored bytes of each image."""
    origins: tuple[tuple[Origin, ...], ...]
    """Of each image."""

    @property
    def keeps_id(self) -> bool:
        """Whether reading the row again gives the same example id: no image lost bytes when it was taken in."""
        images = zip(self.example.images, self.digests, strict=True)
        return all(image.asset_id == digest and image.frame == 0 for image, digest in images)


def shown(example: Example) -> tuple[int, ...]:
    """The image of each image segment, in order: what the row's `images` and the marks in its text stand for."""
    return tuple(segment.image for segment in example.segments if segment.image is not None)


def row(one: Exported, entries: Sequence[Any]) -> dict[str, Any]:
    """The row of an example; fields without a value are left out.

    Args:
        entries: what stands in `images` for each image of the example: a path, or bytes and path.
    """
    example, places = one.example, shown(one.example)
    images = [example.images[place] for place in places]
    metadata: dict[str, Any] = orjson.loads(example.metadata)
    videos = {name: metadata.pop(name) for name in VIDEO_FIELDS if _is_video_field(name, metadata.get(name))}
    fields = {
        "text": "".join(PLACEHOLDER if s.image is not None else s.text or "" for s in example.segments),
        "images": [entries[place] for place in places],
        "image_sizes": [[image.height, image.width] for image in images] or None,
        "ocr_labels": _per_image([image.ocr_labels for image in images]),
        "reading_order": _per_image([image.reading_order for image in images]),
        **videos,
        OWN: _own(one, entries, metadata),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _is_video_field(name: str, value: Any) -> bool:
    """Whether a value has the type that the schema gives the field; anything else stays in the metadata as it is."""
    if not isinstance(value, list) or not value:
        return False
    if name == "videos":
        return all(isinstance(entry, str) for entry in value)
    return all(
        isinstance(entry, list) and all(type(number) is int and 0 <= number < 1 << 31 for number in entry)
        for entry in value
    )


def _per_image(values: Sequence[Sequence[int] | None]) -> list[list[int] | None] | None:
    return [None if v is None else list(v) for v in values] if any(v is not None for v in values) else None


def _own(one: Exported, entries: Sequence[Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    example = one.example
    unshown = set(range(len(example.images))) - set(shown(example))
    return {
        "version": VERSION,
        "example_id": example.example_id,
        "source": example.source,
        **({} if example.group is None else {"group": example.group}),
        "segments": [_segment(segment) for segment in example.segments],
        "relations": [_relation(relation) for relation in example.relations],
        "images": [
            {**_image(image, origins), **(_unshown(image, entries[place]) if place in unshown else {})}
            for place, (image, origins) in enumerate(zip(example.images, one.origins, strict=True))
        ],
        "layout": _layouts(example.images),
        "metadata": dict(metadata),
    }


def _segment(segment: Segment) -> dict[str, Any]:
    fields = {name: getattr(segment, name) for name in ("kind", "text", "image", "role", "supervised", "name")}
    return {name: value for name, value in fields.items() if value is not None}


def _relation(relation: Relation) -> dict[str, Any]:
    fields = {
        "kind": relation.kind,
        "images": list(relation.images),
        "segments": list(relation.segments),
        "scope": relation.scope,
        "annotator": relation.annotator,
        "confidence": relation.confidence,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _image(image: Image, origins: Sequence[Origin]) -> dict[str, Any]:
    return {
        "asset_id": image.asset_id,
        "frame": image.frame,
        "pixel_id": image.pixel_id,
        "media_type": image.media_type,
        "size": [image.height, image.width],
        **({} if image.path is None else {"name": image.path}),
        **({"origins": [_without_nulls(origin) for origin in origins]} if origins else {}),
    }


def _unshown(image: Image, entry: Any) -> dict[str, Any]:
    """What the fields of the row say of an image, for one that no segment shows."""
    fields = {"entry": entry, "ocr_labels": image.ocr_labels, "reading_order": image.reading_order}
    return {name: value for name, value in fields.items() if value is not None}


def _without_nulls(origin: Origin) -> dict[str, str]:
    return {name: value for name, value in origin.items() if value is not None}


def _layouts(images: Sequence[Image]) -> list[list[dict[str, Any]] | None] | None:
    """The layout of each image; None where none has any."""
    if all(image.layout is None for image in images):
        return None
    return [None if image.layout is None else [_item(item) for item in image.layout] for image in images]


def _item(item: LayoutItem) -> dict[str, Any]:
    fields = {
        "level": item.level,
        "text": item.text,
        "polygon": list(item.polygon),
        "parent": item.parent,
        "order": item.order,
        "confidence": item.confidence,
    }
    return {name: value for name, value in fields.items() if value is not None}
