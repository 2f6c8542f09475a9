"""The items of a benchmark: what must not stand in training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import xxhash

from shardkit.digest import canonical_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    asset_id: str
    frame: int
    pixel_id: str
    phash: str
    phash_fine: str
    picture_class: str
    preview: bytes | None = field(default=None, repr=False)
    """None in datasets of older versions."""
    data: bytes | None = field(default=None, repr=False, compare=False)
    """Its bytes, of the few that a self-test plants."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    label: str
    """The id that the row states, or the example id, or its place in the benchmark."""
    question: str = ""
    answers: tuple[str, ...] = ()
    """Any of them will do."""
    context: str = ""
    """A passage, a caption, a page: text that is neither question nor answer."""
    pictures: tuple[Picture, ...] = ()

    @property
    def text(self) -> str:
        """Everything that it says, as a page would."""
        return "\n\n".join(part for part in (self.context, self.question, *self.answers) if part)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    name: str
    digest: str
    """Of the items in their order: labels, texts and image digests, not where they were read from."""
    items: tuple[Item, ...]


def digest_of(items: Sequence[Item]) -> str:
    """xxh3-128 over the items in their order."""
    digest = xxhash.xxh3_128()
    for item in items:
        pictures = [[picture.asset_id, picture.frame] for picture in item.pictures]
        digest.update(canonical_json([item.label, item.question, item.answers, item.context, pictures]) + b"\n")
    return digest.hexdigest()
