"""The row of a shard, as plain Python values, and the example that it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardkit.records import Example, Image, LayoutItem, Relation, Segment

BLOCK_ROWS = 64
BLOCK_BYTES = 4 << 20
"""A row block (record batch, or run of tar members) closes at either limit: the grain of checked reading."""

Row = dict[str, Any]


def payload(example: Example) -> int:
    """Bytes of images, texts, metadata and ids: what --shard-size and row blocks count."""
    size = len(example.example_id) + len(example.metadata.encode())
    for segment in example.segments:
        if segment.text is not None:
            size += len(segment.text.encode())
    for image in example.images:
        size += len(image.data) + len(image.asset_id)
    return size


def from_row(row: Mapping[str, Any]) -> Example:
    return Example(
        example_id=row["example_id"],
        source=row["source"],
        group=row["group"],
        segments=tuple(Segment(**segment) for segment in row["segments"]),
        images=tuple(image_from_row(image) for image in row["images"]),
        relations=tuple(relation_from_row(relation) for relation in row["relations"]),
        metadata=row["metadata"],
    )


def relation_from_row(row: Mapping[str, Any]) -> Relation:
    return Relation(**{**row, "images": tuple(row["images"]), "segments": tuple(row["segments"])})


def image_from_row(row: Mapping[str, Any]) -> Image:
    layout = row["layout"]
    return Image(
        data=row["bytes"],
        path=row["path"],
        asset_id=row["asset_id"],
        frame=row["frame"],
        media_type=row["media_type"],
        width=row["width"],
        height=row["height"],
        pixel_id=row["pixel_id"],
        stored_xxh3=row["stored_xxh3"],
        ocr_labels=_tuple(row["ocr_labels"]),
        reading_order=_tuple(row["reading_order"]),
        layout=None if layout is None else tuple(LayoutItem(**{**t, "polygon": tuple(t["polygon"])}) for t in layout),
    )


def _tuple(values: list[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A run of bytes of a shard; the blocks of a shard cover all of it, in order."""

    first_row: int
    num_rows: int
    """0 for what belongs to no row: the head and the tail of the file."""
    offset: int
    size: int
    xxh3: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What a shard writer made: durable files under temporary names."""

    rows: int
    size: int
    xxh3: str
    blocks: tuple[Block, ...]
    index_size: int | None = None
    index_xxh3: str | None = None
