"""Rows that `shardkit export` wrote: `_shardkit` has the segments, relations, layout, metadata and origins of the example.

It is data like any other: every value is looked at, and what contradicts the row around it is left out with its reason.
Without `_shardkit` the row is read as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.draft import ImageRef, base_name
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem, Relation, Segment

OWN = "_shardkit"
VERSION = 1
PLACEHOLDER = "<image>"

_KINDS = ("caption", "ocr", "interleaved", "dialogue", "preference")
_SCOPES = ("example", "image", "region", "chosen", "rejected")
_ROLES = ("system", "user", "assistant", "tool")
_LEVELS = ("region", "line", "word")
_MOST = 1 << 31
_MOST_ORIGINS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """What `_shardkit` says, every value of its type and inside its bounds."""

    source: str
    group: str | None
    segments: tuple[Segment, ...]
    relations: tuple[Relation, ...]
    images: tuple[ImageRef, ...]
    """Name, frame, layout and origins of each; those that no segment shows have their bytes or path, too."""
    metadata: Mapping[str, Any]


def stated(value: Any) -> Stated:
    """The content of `_shardkit`: an object, or JSON of one as Parquet holds it.

    Raises:
        Bad: own_object, with the place and what is wrong there.
    """
    if isinstance(value, str):
        try:
            value = parse(value.encode()).value
        except (Bad, UnicodeEncodeError) as error:
            detail = error.detail if isinstance(error, Bad) else "a text that is no Unicode"
            _bad("", f"is no JSON: {detail}")
    own = _object(value, "")
    if own.get("version") != VERSION:
        _bad("version", f"is {plain(repr(own.get('version')), 20)}; this shardkit reads {VERSION}")
    images = tuple(_image(one, f"images[{k}]") for k, one in enumerate(_list(own.get("images", []), "images")))
    layouts = own.get("layout")
    if layouts is not None:
        if len(_list(layouts, "layout")) != len(images):
            _bad("layout", f"has {len(layouts)} entries, there are {len(images)} images")
        images = tuple(
            replace(image, layout=_layout(one, f"layout[{k}]"))
            for k, (image, one) in enumerate(zip(images, layouts, strict=True))
        )
    segments = tuple(
        _segment(one, len(images), f"segments[{k}]") for k, one in enumerate(_list(own.get("segments"), "segments"))
    )
    relations = tuple(
        _relation(one, len(images), len(segments), f"relations[{k}]")
        for k, one in enumerate(_list(own.get("relations", []), "relations"))
    )
    return Stated(
        source=_text(own.get("source"), "source", blank=False),
        group=_optional(own, "group", _text),
        segments=segments,
        relations=relations,
        images=images,
        metadata=_object(own.get("metadata", {}), "metadata"),
    )


def restored(own: Stated, text: str, entries: Sequence[ImageRef]) -> tuple[ImageRef, ...]:
    """The images of the example, once `_shardkit` and the row around it were found to agree.

    Args:
        text: of the row.
        entries: what the row's `images` name, one for each mark in the text.

    Raises:
        Bad: own_object, where they say different things.
    """
    joined = "".join(PLACEHOLDER if s.image is not None else s.text or "" for s in own.segments)
    if joined != text:
        _bad("segments", "are another text than the row's; take `_shardkit` away to read the row as it stands")
    shown = [segment.image for segment in own.segments if segment.image is not None]
    if len(shown) != len(entries):
        _bad("segments", f"show {len(shown)} images, the row names {len(entries)}")
    images = list(own.images)
    first: dict[int, ImageRef] = {}
    for place, entry in zip(shown, entries, strict=True):
        if first.setdefault(place, entry) != entry:
            _bad(f"images[{place}]", "stands for different images of the row")
    for place, known in enumerate(images):
        named = first.get(place)
        if named is not None:
            images[place] = _joined(named, known)
        elif known.data is None and not known.path:
            _bad(f"images[{place}]", "is shown by no segment and names no file")
    return tuple(images)


def _joined(entry: ImageRef, known: ImageRef) -> ImageRef:
    """The image of the row with what `_shardkit` knows of it. Layouts count on the upright picture."""
    size = known.stated_size or entry.stated_size
    return replace(
        entry,
        name=known.name or entry.name,
        stated_size=size,
        layout=known.layout,
        layout_size=None if known.layout is None or size is None else (float(size[0]), float(size[1])),
        origins=known.origins,
    )


# --------------------------------------------------------------------------- parts
def _image(value: Any, at: str) -> ImageRef:
    fields = _object(value, at)
    size = fields.get("size")
    if size is not None and not (isinstance(size, list) and len(size) == 2 and all(map(_is_count, size))):
        _bad(f"{at}.size", "is no [height, width]")
    name = _optional(fields, "name", _text, at)
    entry = ImageRef() if fields.get("entry") is None else image_ref(fields["entry"])
    order = _counts(fields, "reading_order", at)
    if order is not None and len(set(order)) != len(order):
        _bad(f"{at}.reading_order", "names a place twice")
    origins = _list(fields.get("origins", []), f"{at}.origins")
    if len(origins) > _MOST_ORIGINS:
        _bad(f"{at}.origins", f"has {len(origins)} entries, the limit is {_MOST_ORIGINS}")
    return replace(
        entry,
        name=None if name is None else base_name(name),
        stated_size=None if size is None else (size[0], size[1]),
        origins=_distinct([_origin(one, f"{at}.origins[{k}]") for k, one in enumerate(origins)]),
        ocr_labels=_counts(fields, "ocr_labels", at),
        reading_order=order,
    )


_ORIGIN = ("revision", "retrieved_at", "origin", "licence")


def _origin(value: Any, at: str) -> dict[str, str]:
    fields = _object(value, at)
    found = {name: _optional(fields, name, _text, at) for name in _ORIGIN}
    return {name: text for name, text in found.items() if text is not None and text.strip()}


def _distinct(origins: Sequence[dict[str, str]]) -> tuple[dict[str, str], ...]:
    return tuple(dict(one) for one in dict.fromkeys(tuple(sorted(origin.items())) for origin in origins))


def _segment(value: Any, num_images: int, at: str) -> Segment:
    fields = _object(value, at)
    kind = fields.get("kind")
    supervised = fields.get("supervised")
    if supervised is not None and not isinstance(supervised, bool):
        _bad(f"{at}.supervised", "is neither true nor false")
    role = _one_of(fields, "role", _ROLES, at)
    name = _optional(fields, "name", _text, at)
    if kind == "image":
        image = fields.get("image")
        if image is None or not (_is_count(image) and image < num_images):
            _bad(f"{at}.image", f"is {plain(repr(image), 20)}; there are {num_images} images")
        return Segment(kind="image", image=image, role=role, supervised=supervised, name=name)
    if kind != "text":
        _bad(f"{at}.kind", f"is {plain(repr(kind), 20)}, neither text nor image")
    text = _text(fields.get("text"), f"{at}.text")
    return Segment(kind="text", text=text, role=role, supervised=supervised, name=name)


def _relation(value: Any, num_images: int, num_segments: int, at: str) -> Relation:
    fields = _object(value, at)
    kind = _one_of(fields, "kind", _KINDS, at)
    if kind is None:
        _bad(f"{at}.kind", "is missing")
    images = _counts(fields, "images", at) or ()
    segments = _counts(fields, "segments", at) or ()
    if any(place >= num_images for place in images) or len(set(images)) != len(images):
        _bad(f"{at}.images", f"names one twice, or one that is not there; there are {num_images}")
    if any(place >= num_segments for place in segments):
        _bad(f"{at}.segments", f"names one that is not there; there are {num_segments}")
    return Relation(
        kind=kind,
        images=images,
        segments=segments,
        scope=_one_of(fields, "scope", _SCOPES, at) or "example",
        annotator=_optional(fields, "annotator", _text, at),
        confidence=_optional(fields, "confidence", _number, at),
    )


def _layout(value: Any, at: str) -> tuple[LayoutItem, ...] | None:
    if value is None:
        return None
    items = _list(value, at)
    return tuple(_item(one, len(items), f"{at}[{k}]") for k, one in enumerate(items))


def _item(value: Any, count: int, at: str) -> LayoutItem:
    fields = _object(value, at)
    level = _one_of(fields, "level", _LEVELS, at)
    if level is None:
        _bad(f"{at}.level", "is missing")
    polygon = [_number(one, f"{at}.polygon") for one in _list(fields.get("polygon", []), f"{at}.polygon")]
    if len(polygon) % 2 or len(polygon) == 2:
        _bad(f"{at}.polygon", f"has {len(polygon)} numbers, no points")
    parent, order = fields.get("parent"), fields.get("order")
    if parent is not None and not (_is_count(parent) and parent < count):
        _bad(f"{at}.parent", f"is {plain(repr(parent), 20)}; there are {count} items")
    if order is not None and not _is_count(order):
        _bad(f"{at}.order", "is no number from 0")
    return LayoutItem(
        level=level,
        text=_optional(fields, "text", _text, at),
        polygon=tuple(polygon),
        parent=parent,
        order=order,
        confidence=_optional(fields, "confidence", _number, at),
    )


# --------------------------------------------------------------------------- values
def _bad(at: str, what: str) -> NoReturn:
    raise Bad("own_object", f"{OWN}{'.' if at else ''}{at} {what}")


def _object(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _bad(at, f"is of type {type(value).__name__}, no object")
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        _bad(at, f"is of type {type(value).__name__}, no list")
    return value


def _text(value: Any, at: str, *, blank: bool = True) -> str:
    if not isinstance(value, str) or (not blank and not value.strip()):
        _bad(at, "is no text" if not isinstance(value, str) else "is blank")
    return value


def _number(value: Any, at: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or not math.isfinite(value):
        _bad(at, "is no number")
    return float(value)


def _optional(fields: Mapping[str, Any], name: str, check: Callable[[Any, str], Any], at: str = "") -> Any:
    value = fields.get(name)
    return None if value is None else check(value, f"{at}.{name}" if at else name)


def _one_of(fields: Mapping[str, Any], name: str, known: tuple[str, ...], at: str) -> str | None:
    value = fields.get(name)
    if value is not None and value not in known:
        _bad(f"{at}.{name}", f"is {plain(repr(value), 20)}, none of {', '.join(known)}")
    return value


def _counts(fields: Mapping[str, Any], name: str, at: str) -> tuple[int, ...] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not all(map(_is_count, _list(value, f"{at}.{name}"))):
        _bad(f"{at}.{name}", "holds something that is no number from 0")
    return tuple(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
