"""An image as it lies in a row: the stored bytes and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutItem:
    """One word, line or region of a page, in upright pixel coordinates."""

    level: str
    """region | line | word"""
    text: str | None = None
    polygon: tuple[float, ...] = ()
    """x0, y0, x1, y1, ... in pixels; four numbers are two opposite corners."""
    parent: int | None = None
    """Index of the item that holds this one, in the same image's layout."""
    order: int | None = None
    """Place in the reading order among items of its level."""
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """One image of an example. Sizes are those of the upright (orientation applied) picture, in pixels."""

    data: bytes
    """The stored bytes: the original's compressed pixels, never encoded again."""
    asset_id: str
    """sha256 of the original bytes, 64 hex digits."""
    stored_xxh3: str
    """xxh3-128 of `data`, 32 hex digits."""
    pixel_id: str
    """xxh3-128 of size and canonical RGB pixels, 32 hex digits."""
    media_type: str
    """For instance image/jpeg."""
    width: int
    height: int
    frame: int = 0
    """Which frame or page of the file this is, from 0."""
    path: str | None = None
    """File name for people and for tar members; never a path of the machine that made the set."""
    ocr_labels: tuple[int, ...] | None = None
    reading_order: tuple[int, ...] | None = None
    layout: tuple[LayoutItem, ...] | None = None
