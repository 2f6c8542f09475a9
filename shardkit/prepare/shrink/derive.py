"""An example with smaller pictures: what it was made from is recorded, and everything that counts in pixels follows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from shardkit.media.decode import ANYTHING
from shardkit.media.load import Media, load
from shardkit.media.shrink import Shrunk, shrink
from shardkit.prepare.ingest.layout import clipped, scaled
from shardkit.records import Example, Image, example_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Derived:
    """What became of one image."""

    number: int
    """Index into the images of its example."""
    before: Image
    after: Image
    media: Media
    """Of the new file."""

    def row(self, example: str) -> dict[str, Any]:
        """Its row of tables/derived, in the example of that id."""
        return {
            "example_id": example,
            "image": self.number,
            "asset_id": self.after.asset_id,
            "pixel_id": self.after.pixel_id,
            "width": self.after.width,
            "height": self.after.height,
            "from_asset_id": self.before.asset_id,
            "from_frame": self.before.frame,
            "from_pixel_id": self.before.pixel_id,
            "from_width": self.before.width,
            "from_height": self.before.height,
        }

    def asset(self) -> dict[str, Any]:
        """Its row of tables/assets."""
        media = self.media
        return {
            "asset_id": media.asset_id,
            "frame": 0,
            "size": len(media.stored),
            "stored_xxh3": media.stored_xxh3,
            "pixel_id": media.pixel_id,
            "phash": media.looks.phash,
            "phash_fine": media.looks.phash_fine,
            "preview": media.looks.preview,
            "class": media.looks.picture_class,
            "has_gps": media.has_gps,
        }


def derive(example: Example, *, max_side: int, quality: int) -> tuple[Example, tuple[Derived, ...]]:
    """The example with no side of an image over `max_side` pixels; itself where none is.

    Raises:
        BadMedia: if an image does not decode.
    """
    derived = []
    for number, image in enumerate(example.images):
        if max(image.width, image.height) > max_side:
            made = shrink(image.data, max_side=max_side, quality=quality)
            if made is not None:
                derived.append(_derived(number, image, made))
    if not derived:
        return example, ()
    images = list(example.images)
    for one in derived:
        images[one.number] = one.after
    after = replace(example, images=tuple(images), group=_group(example, derived), example_id="")
    return replace(after, example_id=example_id(after)), tuple(derived)


def _derived(number: int, before: Image, made: Shrunk) -> Derived:
    media = load(made.data, limits=ANYTHING, keep_metadata=True)  # there is none: what is stored is the whole file
    after = replace(
        before,
        data=media.stored,
        asset_id=media.asset_id,
        stored_xxh3=media.stored_xxh3,
        pixel_id=media.pixel_id,
        media_type=media.media_type,
        width=media.width,
        height=media.height,
        frame=0,
        path=_path(before, media),
    )
    if before.layout is not None:
        layout = scaled(before.layout, (before.height, before.width), (media.height, media.width))
        # Products of floats may end a hair outside; nothing that had an area loses it.
        after = replace(after, layout=clipped(layout, media.width, media.height, Counter()))
    return Derived(number=number, before=before, after=after, media=media)


def _path(before: Image, media: Media) -> str | None:
    if before.path is None or before.media_type == media.media_type:
        return before.path
    return PurePosixPath(before.path).with_suffix(media.extension).as_posix()


def _group(example: Example, derived: list[Derived]) -> str | None:
    """The group; where it is the id of an image that changed, as ingest gives captions by default, the new id."""
    for one in derived:
        if example.group == one.before.asset_id:
            return one.after.asset_id
    return example.group
