"""One training unit before tokenization: text and image segments in order."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.digest import canonical_json, xxh3
from shardkit.records.asset import Image
from shardkit.records.relation import Relation


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    kind: str
    """text | image"""
    text: str | None = None
    image: int | None = None
    """Index into the example's images; one image may be shown by several segments."""
    role: str | None = None
    """system | user | assistant | tool, in dialogues."""
    supervised: bool | None = None
    """Whether the text is a target; None leaves it to the tokenize recipe."""
    name: str | None = None
    """Names the part a segment plays, for instance tool_calls, chosen, rejected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    source: str
    segments: tuple[Segment, ...]
    images: tuple[Image, ...] = ()
    relations: tuple[Relation, ...] = ()
    metadata: str = "{}"
    """Canonical JSON object."""
    group: str | None = None
    """What a split may not divide, as the source declares it."""
    example_id: str = ""
    """xxh3-128 over the content (source, segments, asset ids, relations, metadata); 32 hex digits."""

    @property
    def text(self) -> str:
        """The text segments, joined; image places leave nothing behind."""
        return "".join(segment.text or "" for segment in self.segments if segment.kind == "text")


def example_id(example: Example) -> str:
    """The id that `example`'s content gives. Group, file names and stored bytes do not enter."""
    content = [
        example.source,
        [[s.kind, s.text, s.image, s.role, s.supervised, s.name] for s in example.segments],
        [
            [
                i.asset_id,
                i.frame,
                i.ocr_labels,
                i.reading_order,
                [[t.level, t.text, t.polygon, t.parent, t.order, t.confidence] for t in i.layout or ()],
            ]
            for i in example.images
        ],
        [[r.kind, r.images, r.segments, r.scope, r.annotator, r.confidence] for r in example.relations],
        example.metadata,
    ]
    return xxh3(canonical_json(content))
