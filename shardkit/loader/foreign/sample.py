"""What a foreign source gives: samples by place, and what identifies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shardkit.media.decode import decode_rgb
from shardkit.media.png_header import plain_png_size
from shardkit.media.turbo import plain_size
from shardkit.records import Example, Image, Relation, Segment

PLACEHOLDER = "<image>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    key: str
    """Names it among all samples of its source."""
    text: str
    """`<image>` stands for the next picture; without any, the pictures stand before the text."""
    images: tuple[bytes | memoryview, ...]
    """Encoded, as they lie there."""


class Unusable(Exception):  # noqa: N818 - a finding about the data, which is counted
    """A sample that gives no sequence: it is left out, and so are those alike."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Source(Protocol):
    """Samples by (shard, row)."""

    name: str
    """What the samples' source is called, for mixtures and shares."""

    @property
    def num_rows(self) -> Sequence[int]:
        """Samples of each shard."""

    @property
    def identity(self) -> dict[str, Any]:
        """What is compared when a state is restored: names, sizes and settings; no contents."""

    def sample(self, shard: int, row: int) -> Sample:
        """For one thread at a time.

        Raises:
            Unusable: where it has not what a sample needs.
            SourceError: where it cannot be read.
        """

    def place(self, shard: int, row: int) -> str:
        """For messages."""


def to_example(sample: Sample, source: str) -> Example:
    """A sample as an example; of its images only the sizes are told.

    Raises:
        ValueError: where the text has another number of places than the sample has images.
        BadMedia: where an image cannot be decoded.
    """
    parts = sample.text.split(PLACEHOLDER)
    if len(parts) == 1:
        parts = [*[""] * len(sample.images), sample.text]
    if len(parts) != len(sample.images) + 1:
        raise ValueError(f"{len(parts) - 1} places for {len(sample.images)} images")
    segments: list[Segment] = []
    for number, part in enumerate(parts):
        if number:
            segments.append(Segment(kind="image", image=number - 1))
        if part:
            segments.append(Segment(kind="text", text=part))
    texts = tuple(at for at, segment in enumerate(segments) if segment.kind == "text")
    relations: tuple[Relation, ...] = ()
    if sample.images and texts:
        kind = "caption" if len(sample.images) == 1 and len(texts) == 1 else "interleaved"
        relations = (Relation(kind=kind, images=tuple(range(len(sample.images))), segments=texts),)
    return Example(
        source=source,
        segments=tuple(segments),
        images=tuple(_image(data) for data in sample.images),
        relations=relations,
        example_id=sample.key,
    )


def _image(data: bytes | memoryview) -> Image:
    size = plain_size(data) or plain_png_size(data)
    if size is None:
        # What is no plain JPEG or PNG is decoded to know its upright size; the first pass pays for it once.
        picture = decode_rgb(data)
        size = (picture.height, picture.width)
    return Image(
        data=b"", asset_id="", stored_xxh3="", pixel_id="", media_type="", height=size[0], width=size[1], frame=0
    )
