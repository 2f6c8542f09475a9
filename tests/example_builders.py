"""Small examples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardkit.records import Example, Image, Relation, Segment, example_id

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_image(height: int = 32, width: int = 48, *, number: int = 0) -> Image:
    """An image without pixels, for what needs its size only."""
    return Image(
        data=b"",
        asset_id=f"{number:02x}" * 32,
        stored_xxh3=f"{number:02x}" * 16,
        pixel_id=f"{number:02x}" * 16,
        media_type="image/png",
        width=width,
        height=height,
    )


def make_example(
    *parts: str | int, relations: Iterable[Relation] = (), images: tuple[Image, ...] | None = None, source: str = "test"
) -> Example:
    """An example of texts and images (by number) in order; images default to as many 32 x 48 ones as are named."""
    numbers = [part for part in parts if isinstance(part, int)]
    if images is None:
        images = tuple(make_image(number=number) for number in range(max(numbers, default=-1) + 1))
    segments = tuple(
        Segment(kind="image", image=part) if isinstance(part, int) else Segment(kind="text", text=part)
        for part in parts
    )
    example = Example(source=source, segments=segments, images=images, relations=tuple(relations))
    return replace(example, example_id=example_id(example))


def caption(segment: int, *images: int) -> Relation:
    return Relation(kind="caption", images=images, segments=(segment,))
