"""A record as its format understands it, before any image is looked at: the same for every source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardkit.records import LayoutItem, Relation, Segment


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageRef:
    """An image that a record names: its bytes, or what the data calls it."""

    data: bytes | None = None
    path: str = ""
    """Path or address, as it stands in the data; used where `data` is None."""
    name: str | None = None
    """For people: a base name, never a path."""
    origin: str | None = None
    """Address or member that it came from, for provenance."""
    frame: int = 0
    has_siblings: bool = False
    """Other frames of the same file are asked for, too: all are decoded in one go."""
    stated_size: tuple[int, int] | None = None
    """[height, width] that the data claims."""
    ocr_labels: tuple[int, ...] | None = None
    reading_order: tuple[int, ...] | None = None
    layout: tuple[LayoutItem, ...] | None = None
    page_size: tuple[float, float] | None = None
    """[height, width] that the layout states for its page, in the unit that it counts in; its shape is the picture's."""
    layout_size: tuple[float, float] | None = None
    """[height, width] that the layout's coordinates count on; None: pixels of the picture."""
    origins: tuple[Mapping[str, str], ...] = ()
    """Where an earlier preparation had it from: revision, retrieved_at, origin and licence, as far as each is known."""
    shorten: bool = False
    """Where nothing lies at `path`, its shorter ends are tried: it begins with folders of another machine."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """Segments and relations name images by their place in `images`."""

    input: str
    position: str
    segments: tuple[Segment, ...]
    images: tuple[ImageRef, ...] = ()
    relations: tuple[Relation, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """Where relative paths begin, relative to the input root."""
    source: str | None = None
    """What an earlier preparation called the source; None: the name of this run."""
    group: str | None = None
    """What the format groups by unless the user says otherwise."""
    group_by_asset: bool = False
    """The group is the asset id of the first image."""
    changes: Counter[str] = field(default_factory=Counter)


def base_name(text: str) -> str | None:
    """The file name in a path or address, without folders, query and control characters; at most 200 characters."""
    last = text.split("?", 1)[0].split("#", 1)[0].replace("\\", "/").rstrip("/").rpartition("/")[2]
    clean = "".join(sign for sign in last if sign.isprintable())[-200:]
    return clean or None
