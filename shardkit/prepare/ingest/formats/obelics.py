"""obelics: interleaved documents of the OBELICS form, as JSON lines, a JSON array or Parquet.

    {"images": ["https://...", null], "texts": [null, "..."], "metadata": "[...]", "general_metadata": "{...}"}

At each place exactly one of image and text is set. An image is bytes, a data: URI, an address that --url-map knows, or a
path below --images. A picture that cannot be had loses its place, by default; the others stay in order. Pictures at the
end of a document stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.draft import Draft, ImageRef
from shardkit.prepare.ingest.formats.fields import found
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("jsonl", "parquet", "arrow", "mds", "json")
FIELDS = ("images", "texts", "metadata", "general_metadata")
REQUIRED = (("images", ("images",)), ("texts", ("texts",)))

_UNREAD = {"no_image": "", "bad_data_uri": "data:,"}
"""Reason -> a path that gives it again."""
_ADDRESSES = ("url", "document_url", "page_url")


def drafts(record: Record, config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one document.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the document is a JSON {type(row).__name__}, not an object")
    names = {name: config.fields.get(name, name) for name in FIELDS}
    changes = Counter(record.changes)
    entries, texts = _list(row, names["images"]), _list(row, names["texts"])
    segments, images = _slots(entries, texts, changes)
    metadata = {key: value for key, value in row.items() if key not in names.values()}
    for name in ("metadata", "general_metadata"):
        value = _decoded(row.get(names[name]), name, changes)
        if value is not None:
            metadata[name] = value
    url = _address(metadata)
    if url is not None:
        metadata.setdefault("url", url)
    if not segments:
        raise Bad("no_content", "the document has no places")
    yield Draft(
        input=record.input,
        position=record.position,
        folder=record.folder,
        segments=segments,
        images=images,
        relations=(
            Relation(
                kind="interleaved",
                images=tuple(range(len(images))),
                segments=tuple(range(len(segments))),
                scope="example",
            ),
        ),
        metadata=metadata,
        group=url,
        changes=changes,
    )


def _list(row: Mapping[str, Any], name: str) -> list[Any]:
    if name not in row:
        raise Bad("missing_field", f"field {name} is missing (found: {found(row)})")
    if not isinstance(row[name], list):
        raise Bad("wrong_type", f"field {name} is of type {type(row[name]).__name__}, not a list")
    value: list[Any] = row[name]
    return value


def _slots(
    entries: list[Any], texts: list[Any], changes: Counter[str]
) -> tuple[tuple[Segment, ...], tuple[ImageRef, ...]]:
    """Segments and images of a document, place by place."""
    if len(entries) != len(texts):
        raise Bad("slot_count", f"images has {len(entries)} places, texts has {len(texts)}")
    segments: list[Segment] = []
    images: list[ImageRef] = []
    for place, (entry, text) in enumerate(zip(entries, texts, strict=True)):
        if (entry is None) == (text is None):
            both = "neither image nor text" if entry is None else "both image and text"
            raise Bad("slot_value", f"place {place} has {both}")
        if text is not None:
            if not isinstance(text, str):
                raise Bad("wrong_type", f"place {place}: the text is of type {type(text).__name__}")
            segments.append(Segment(kind="text", text=text))
            continue
        segments.append(Segment(kind="image", image=len(images)))
        images.append(_image(entry, place))
    changes["image_slots"] += len(images)
    return tuple(segments), tuple(images)


def _image(entry: Any, place: int) -> ImageRef:
    """The image of a place. One that was never fetched, or whose base64 is broken, is met again when it is read: the
    policy for missing images decides then.
    """
    try:
        return image_ref(entry) if not isinstance(entry, str) else _from_text(entry)
    except Bad as bad:
        if isinstance(entry, dict) and bad.reason in _UNREAD:
            return ImageRef(path=_UNREAD[bad.reason])
        raise Bad(bad.reason, f"place {place}: {bad.detail}") from None


def _from_text(text: str) -> ImageRef:
    return ImageRef(path=text) if text.startswith("data:") else image_ref(text)


def _decoded(value: Any, name: str, changes: Counter[str]) -> Any:
    """Metadata as it was meant: the released form keeps it as JSON text. Broken text is dropped and counted."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return parse(value.encode("utf-8", "surrogatepass")).value
    except Bad:
        changes[f"{name}_dropped"] += 1
        return None


def _address(metadata: Mapping[str, Any]) -> str | None:
    """The document's address: in general_metadata, else in the metadata of its first image that has one."""
    per_image = metadata.get("metadata")
    places = [metadata.get("general_metadata"), metadata, *(per_image if isinstance(per_image, list) else [])]
    for place in places:
        if isinstance(place, Mapping):
            names = _ADDRESSES if place is places[0] or place is metadata else ("document_url",)
            for name in names:
                value = place.get(name)
                if isinstance(value, str) and value.strip():
                    return value
    return None
