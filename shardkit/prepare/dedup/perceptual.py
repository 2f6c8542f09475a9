"""Images that look alike, from what ingest stored of them: no image is opened.

    pages     equal bits of the fine hash (and equal figures in the text) -> at most 120 of its 1,024 bits differ
    pictures  equal bits of the hash                                      -> the same
              a code like that of a window of another's preview           -> at most 30 of 256 bits differ in the window
                                                                             that fits best

Candidates come from bands of sampled bits, so nothing is compared all against all. Pages and pictures never meet, and blank
images meet nobody: their hashes are of noise. Mirrored and turned pictures are looked for on request, by mirrored and
turned previews; pages never.

Where many images share a key, each is compared with the first of them only. Such crowded images are looked for again
among those with the same text, and pages among those with a like one (`Spoken`): it is the text that decides there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.media.preview import SIDE
from shardkit.prepare.dedup import whole, windows
from shardkit.prepare.dedup.edges import Indices, NearEdges
from shardkit.prepare.dedup.hashes import (
    FINE_BITS,
    FLOOR,
    PAGE,
    PICTURE,
    THRESHOLD,
    Edges,
    ImageHashes,
    joined,
    joined_edges,
    may_meet,
    read_hashes,
)
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.windows import VARIANTS

__all__ = [
    "DETAILS", "FLOOR", "THRESHOLD", "THRESHOLDS", "TRANSFORMS", "VERSION", "ImageHashes", "Looked", "Spoken",
    "evidence", "find", "joined", "measure", "read_hashes", "search",
]  # fmt: skip

VERSION = 3
THRESHOLDS = (FLOOR, 0.86, 0.87, THRESHOLD, 0.9, 0.93, 0.97)
DETAILS = 3
"""bits compared, bits that differ, place in VARIANTS"""
TRANSFORMS = ("mirror", "rotate")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spoken:
    """What stands beside images, where they are alone in a row."""

    units: Indices
    texts: Keys
    """[n] image and key of a text, each pair once; 0 for no text."""
    like: Callable[[Indices], Iterator[tuple[Indices, Keys]]]
    """Some images -> (image, key) pairs, several times over; images whose texts are alike share a key."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Looked:
    edges: NearEdges
    """Down to FLOOR."""
    crowded: npt.NDArray[np.bool_]
    """[U] images that share a key with more than they were compared with."""


def find(images: ImageHashes, *, transforms: frozenset[str] = frozenset()) -> NearEdges:
    """The edges of `search`."""
    return search(images, transforms=transforms).edges


def search(
    images: ImageHashes,
    *,
    transforms: frozenset[str] = frozenset(),
    spoken: Spoken | None = None,
    first: int | None = None,
) -> Looked:
    """Pairs of images that look alike, down to FLOOR.

    Args:
        transforms: of TRANSFORMS, what is looked for beside pictures as they are.
        spoken: what stands beside them, for images in crowds.
        first: where given, only pairs of one of the first images and one of the others are answered. The first are
            few: whatever the crowd of the others, each of them is compared with all.
    """
    # Which members of a large bucket are compared depends on their places: their order is that of the hashes, and
    # pictures come before pages, of which there may be many of one form.
    order = np.lexsort((_preview_keys(images), *images.coarse.T, *images.fine.T, images.salt, images.classes))
    placed = images.take(order)
    sides = None if first is None else order < first
    crowd = np.zeros(len(order), np.bool_)
    pages = np.flatnonzero(placed.classes == PAGE)
    seen = np.flatnonzero((placed.classes == PAGE) | (placed.classes == PICTURE))
    parts = [
        whole.find(placed, pages, whole.fine_bands(placed, pages, placed.salt[pages]), crowd=crowd, sides=sides),
        whole.find(placed, seen, whole.coarse_bands(placed, seen, np.uint64(0)), crowd=crowd, sides=sides),
    ]
    shown = windows.Shown.of(placed, seen)
    ways = _ways(shown, crowd, sides)
    for variant in windows.variants_of(transforms):
        parts.append(windows.find(shown, ways, variant, known=_proven(parts)))
    if spoken is not None and crowd.any():
        _look_again(parts, placed, _at_places(spoken, order), crowd, transforms)
    crowded = np.zeros(len(order), np.bool_)
    crowded[order] = crowd
    return Looked(edges=_best(parts, order), crowded=crowded)


def _preview_keys(images: ImageHashes) -> Keys:
    """[U] one number for each preview; previews that differ have different ones, but for a chance of 2 ** -64."""
    words = images.preview.reshape(len(images), SIDE * SIDE).view(np.uint64)
    odd = (np.arange(words.shape[1], dtype=np.uint64) * _SPREAD) | np.uint64(1)
    keys = np.zeros(len(images), np.uint64)
    for column, factor in zip(words.T, odd, strict=True):
        keys += (column ^ (column >> np.uint64(31))) * factor
    return keys


def _ways(
    shown: windows.Shown, crowd: npt.NDArray[np.bool_], sides: npt.NDArray[np.bool_] | None
) -> list[windows.Sought]:
    """Pictures meet everything; pages meet those of texts with the same figures."""
    picture = shown.images.classes[shown.units] == PICTURE
    salt = shown.images.salt[shown.units]
    # Pages without a text, or with one that nobody told, do not meet in windows.
    pages = np.flatnonzero(~picture & (salt != 0))
    everything = np.arange(len(picture))
    return [
        windows.Sought(of=everything, pictures=picture, crowd=crowd, sides=sides),
        windows.Sought(of=pages, salt=salt[pages], crowd=crowd, sides=sides),
    ]


def measure(images: ImageHashes, one: Indices, two: Indices, *, transforms: frozenset[str] = frozenset()) -> NearEdges:
    """Of some pairs of images those that look alike, down to FLOOR.

    Args:
        one: [P] and two; each pair once.
    """
    units, place = np.unique(np.concatenate([one, two]), return_inverse=True)
    own = images.take(units)
    left, right = place[: len(one)], place[len(one) :]
    seen = np.isin(own.classes, (PAGE, PICTURE))
    meet = seen[left] & seen[right] & may_meet(own, left, right, silent=True)
    parts = [_near(whole.measured(own, left[meet], right[meet]))]
    shown = windows.Shown.of(own, np.flatnonzero(seen))
    there = np.isin(left, shown.units) & np.isin(right, shown.units)
    for variant in windows.variants_of(transforms):
        rest = there & ~np.isin(windows.key_of(left, right), _proven(parts))
        parts.append(windows.measured(shown, variant, left[rest], right[rest]))
    return _best(parts, units)


def evidence(score: float, detail: Sequence[int]) -> str:  # noqa: ARG001 - one call for all near matchers
    """What was compared, and how much of it differs."""
    bits, differ, variant = detail[:DETAILS]
    what = "of the fine hash" if bits == FINE_BITS else "inside the best window"
    turned = f", {VARIANTS[variant]}" if variant else ""
    return f"{differ} of {bits} bits {what} differ{turned}"


def _look_again(
    parts: list[Edges], images: ImageHashes, spoken: Spoken, crowd: npt.NDArray[np.bool_], transforms: frozenset[str]
) -> None:
    """Add pairs of crowded images with one text, and of crowded pages with like ones."""
    own = np.flatnonzero(crowd[spoken.units])
    units, texts = spoken.units[own], spoken.texts[own]
    pages = images.classes[units] == PAGE
    salt = texts[pages] ^ images.salt[units[pages]]
    parts.append(whole.find(images, units[pages], whole.fine_bands(images, units[pages], salt)))
    parts.append(whole.find(images, units, whole.coarse_bands(images, units, texts)))
    shown = windows.Shown.of(images, np.unique(units))
    there = images.previewed[units]
    sought = windows.Sought(of=shown.place(units[there]), salt=texts[there])
    for variant in windows.variants_of(transforms):
        parts.append(windows.find(shown, [sought], variant, known=_proven(parts)))
    for some, keys in spoken.like(np.unique(units[pages])):
        parts.append(whole.find(images, some, [keys]))


def _at_places(spoken: Spoken, order: Indices) -> Spoken:
    """The same for images that were put in order: `order[k]` is the image in place k."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    units = place[spoken.units]
    rank = np.lexsort((spoken.texts, units))

    def like(some: Indices) -> Iterator[tuple[Indices, Keys]]:
        for found, keys in spoken.like(order[some]):
            there = np.argsort(place[found], kind="stable")
            yield place[found][there], keys[there]

    return Spoken(units=units[rank], texts=spoken.texts[rank], like=like)


def _near(edges: Edges) -> Edges:
    keep = np.flatnonzero(edges[2] >= FLOOR)
    return edges[0][keep], edges[1][keep], edges[2][keep], edges[3][keep]


def _proven(parts: Sequence[Edges]) -> Indices:
    """Pairs that need no other proof, ascending; see windows.key_of."""
    return np.unique(np.concatenate([windows.key_of(one, two)[score >= THRESHOLD] for one, two, score, _ in parts]))


def _best(parts: Sequence[Edges], order: Indices) -> NearEdges:
    """All edges under the callers' numbers; of several between two images the nearest stays."""
    first, second, score, detail = joined_edges(*parts)
    one, two = np.minimum(order[first], order[second]), np.maximum(order[first], order[second])
    ranked = np.lexsort((detail[:, 2], detail[:, 0], -score, two, one))
    new = np.ones(len(ranked), np.bool_)
    new[1:] = (np.diff(one[ranked]) != 0) | (np.diff(two[ranked]) != 0)
    kept = ranked[new]
    return NearEdges(one=one[kept], two=two[kept], score=score[kept], detail=detail[kept])
