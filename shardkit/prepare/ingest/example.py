"""Draft -> example: its images are read, decoded once and described; or the record is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from shardkit.errors import SourceError
from shardkit.media.decode import DECODER
from shardkit.media.limits import MediaLimits
from shardkit.media.load import Media, load, load_pages
from shardkit.media.phash import Sketch
from shardkit.media.reasons import BadMedia
from shardkit.prepare.ingest.draft import Draft, ImageRef
from shardkit.prepare.ingest.layout import clipped, scaled
from shardkit.prepare.ingest.metadata import encoded
from shardkit.prepare.ingest.page_geometry import follow
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import Example, Image, Relation, Segment, example_id
from shardkit.text.privacy import has_email, has_phone

_SMALL = 256 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What the run decides for every record."""

    source: str
    revision: str | None
    retrieved_at: str | None
    licence: str | None
    recipe: str
    """Fingerprint of the ingest recipe."""
    on_missing_image: str
    keep_metadata: bool
    limits: MediaLimits
    group: Callable[[str, Mapping[str, Any]], str | None] | None
    """The user's --group-by; None: the format's default."""
    group_by_path: bool
    """It looks at the path of the input, or at the member's name where that says nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """A record that became an example, and its rows in the tables."""

    example: Example
    input: str
    position: str
    assets: tuple[dict[str, Any], ...]
    """Without the columns of their looks."""
    sketches: tuple[Sketch, ...]
    """What those are made of."""
    provenance: tuple[dict[str, Any], ...]
    marks: dict[str, bool]
    """has_email and has_phone of its texts."""
    changes: Counter[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Loaded:
    media: Media
    size: int
    """Of the file as it came, in bytes."""
    ref: ImageRef


def finish(draft: Draft, policy: Policy, reader: Reader) -> Kept:
    """The example that `draft` becomes.

    Raises:
        Bad: the record is left out.
        SourceError: an image is missing and the policy is to fail.
    """
    changes = Counter(draft.changes)
    images: list[Image] = []
    media: list[_Loaded] = []
    places: dict[int, int] = {}
    known: dict[tuple[Any, ...], int] = {}
    for number, ref in enumerate(draft.images):
        one = _load(ref, draft, policy, reader, changes)
        if one is None:
            continue
        image = _image(one.media, ref, changes)
        places[number] = known.setdefault(_stored_once(image), len(images))
        if places[number] == len(images):
            images.append(image)
            media.append(one)
    segments, moved = _segments(draft.segments, places)
    if not any(s.kind == "image" or (s.text or "").strip() for s in segments):
        raise Bad("no_content", "neither text nor image is left" if draft.images else "the text is blank")
    metadata = encoded(draft.metadata, changes, keep_private=policy.keep_metadata)
    example = Example(
        source=draft.source or policy.source,
        segments=segments,
        images=tuple(images),
        relations=_relations(draft.relations, places, moved),
        metadata=metadata,
        group=_group(draft, policy, images),
    )
    example = replace(example, example_id=example_id(example))
    return Kept(
        example=example,
        input=draft.input,
        position=draft.position,
        assets=tuple(_asset(one) for one in media),
        sketches=tuple(one.media.sketch for one in media),
        provenance=tuple(
            row
            for one, (kind, annotator) in zip(media, _told_of(example), strict=True)
            for row in _provenance(example, one, draft, policy, relation=kind, annotator=annotator)
        ),
        marks=_marks(example),
        changes=changes,
    )


def _load(ref: ImageRef, draft: Draft, policy: Policy, reader: Reader, changes: Counter[str]) -> _Loaded | None:
    """The image, or None where its place is dropped."""
    try:
        data = reader.image(ref, draft.folder)
        media = _decoded(data, ref, policy)
    except (Bad, BadMedia) as bad:
        shown = plain(ref.path or ref.name or "image", 80)
        detail = bad.detail if shown in bad.detail else f"{shown}: {bad.detail}"
        if policy.on_missing_image == "fail":
            raise SourceError(
                f"an image is missing or unusable: {detail} ({bad.reason})",
                where=f"{draft.input}:{draft.position}",
                hint="leave such records out with --on-missing-image drop-document",
            ) from None
        if policy.on_missing_image == "drop-image":
            changes["image_dropped"] += 1
            changes[f"image_dropped:{bad.reason}"] += 1
            return None
        raise Bad(bad.reason, detail) from None
    for name in media.removed:
        changes[f"removed:{name}"] += 1
    for name in media.changes:
        changes[f"picture:{name}"] += 1
    return _Loaded(media=media, size=len(data), ref=ref)


_load_again = lru_cache(maxsize=64)(load)
"""Small pictures that pages repeat (logos, icons) are decoded once; at most 64 of 256 KiB are held."""

_load_pages = lru_cache(maxsize=1)(load_pages)
"""The pages of one file come one after the other, each an example of its own."""


def _decoded(data: bytes, ref: ImageRef, policy: Policy) -> Media:
    if ref.has_siblings:
        pages = _load_pages(data, limits=policy.limits, keep_metadata=policy.keep_metadata)
        if ref.frame < len(pages):
            page = pages[ref.frame]
            if isinstance(page, BadMedia):
                raise page
            return page
    loader = _load_again if len(data) <= _SMALL else load
    return loader(data, limits=policy.limits, frame=ref.frame, keep_metadata=policy.keep_metadata)


def _image(media: Media, ref: ImageRef, changes: Counter[str]) -> Image:
    if ref.stated_size is not None and ref.stated_size != (media.height, media.width):
        _judge_size(ref.stated_size, media, changes)
    layout = ref.layout
    if layout is not None and ref.layout_size is not None:
        layout = scaled(layout, ref.layout_size, (media.height, media.width))
    elif layout is not None:
        layout = follow(
            layout,
            page=ref.page_size or (None if media.orientation == 1 else ref.stated_size),
            upright=(media.height, media.width),
            orientation=media.orientation,
            changes=changes,
        )
    if layout is not None:
        layout = clipped(layout, media.width, media.height, changes)
    return Image(
        data=media.stored,
        asset_id=media.asset_id,
        stored_xxh3=media.stored_xxh3,
        pixel_id=media.pixel_id,
        media_type=media.media_type,
        width=media.width,
        height=media.height,
        frame=media.frame,
        path=ref.name,
        ocr_labels=ref.ocr_labels,
        reading_order=ref.reading_order,
        layout=layout,
    )


def _judge_size(stated: tuple[int, int], media: Media, changes: Counter[str]) -> None:
    if stated == (media.width, media.height):
        changes["image_size_swapped"] += 1
        return
    raise Bad(
        "image_sizes_wrong",
        f"image_sizes says {stated[0]} x {stated[1]} (height x width), the image has {media.height} x {media.width}",
    )


def _stored_once(image: Image) -> tuple[Any, ...]:
    """What is equal for two images of which one stored one can stand for both: names do not count."""
    return image.asset_id, image.frame, image.ocr_labels, image.reading_order, image.layout


def _segments(segments: tuple[Segment, ...], places: Mapping[int, int]) -> tuple[tuple[Segment, ...], dict[int, int]]:
    """The segments with their stored images, and where each kept one stood before."""
    kept: list[Segment] = []
    moved: dict[int, int] = {}
    for number, segment in enumerate(segments):
        if segment.image is None:
            moved[number] = len(kept)
            kept.append(segment)
        elif segment.image in places:
            moved[number] = len(kept)
            place = places[segment.image]
            kept.append(segment if place == segment.image else replace(segment, image=place))
    return tuple(kept), moved


def _relations(
    relations: tuple[Relation, ...], places: Mapping[int, int], moved: Mapping[int, int]
) -> tuple[Relation, ...]:
    kept = []
    for relation in relations:
        images = tuple(dict.fromkeys(places[k] for k in relation.images if k in places))
        if images or not relation.images or (relation.kind == "interleaved" and relation.scope != "image"):
            segments = tuple(moved[k] for k in relation.segments if k in moved)
            same = (images, segments) == (relation.images, relation.segments)
            kept.append(relation if same else replace(relation, images=images, segments=segments))
    return tuple(kept)


def _group(draft: Draft, policy: Policy, images: list[Image]) -> str | None:
    if policy.group is not None:
        found = policy.group(draft.input, draft.metadata)
        return policy.group(draft.position, draft.metadata) if found is None and policy.group_by_path else found
    if draft.group_by_asset:
        return images[0].asset_id if images else None
    return draft.group


def _marks(example: Example) -> dict[str, bool]:
    texts = [segment.text for segment in example.segments if segment.text]
    return {"has_email": any(map(has_email, texts)), "has_phone": any(map(has_phone, texts))}


def _asset(loaded: _Loaded) -> dict[str, Any]:
    media = loaded.media
    return {
        "asset_id": media.asset_id,
        "frame": media.frame,
        "size": loaded.size,
        "stored_xxh3": media.stored_xxh3,
        "pixel_id": media.pixel_id,
        "has_gps": media.has_gps,
    }


def _told_of(example: Example) -> list[tuple[str | None, str | None]]:
    """Of each image the kind of its first relation, and the annotator of its first one that has any."""
    told: list[tuple[str | None, str | None]] = [(None, None)] * len(example.images)
    for relation in example.relations:
        for number in relation.images:
            kind, annotator = told[number]
            told[number] = kind or relation.kind, annotator or relation.annotator
    return told


def _provenance(
    example: Example, loaded: _Loaded, draft: Draft, policy: Policy, *, relation: str | None, annotator: str | None
) -> Iterator[dict[str, Any]]:
    """The rows of an image: one, or one for each place that an earlier preparation had it from."""
    media, ref = loaded.media, loaded.ref
    told = {name: _text(draft.metadata.get(name)) for name in ("licence", "license", "revision", "retrieved_at")}
    for origin in ref.origins or ({},):
        yield {
            "asset_id": media.asset_id,
            "frame": media.frame,
            "example_id": example.example_id,
            "source": example.source,
            "revision": policy.revision or origin.get("revision") or told["revision"],
            "retrieved_at": policy.retrieved_at or origin.get("retrieved_at") or told["retrieved_at"],
            "input": draft.input,
            "position": draft.position,
            "origin": origin.get("origin") or ref.origin,
            "digest": f"sha256:{media.asset_id}",
            "licence": policy.licence or origin.get("licence") or told["licence"] or told["license"],
            "decoder": DECODER,
            "preprocessing": ",".join((*(f"removed:{name}" for name in media.removed), *media.changes)) or "none",
            "relation": relation,
            "annotator": annotator or None,
            "group": example.group,
            "derived_recipe": policy.recipe,
            "tokenizer": None,
            "processor": None,
        }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
