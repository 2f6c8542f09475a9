"""From images that look alike to lists of images that do: the units that the perceptual matcher compares.

    rows -> images -> units (distinct pixels; pages also by the figures of their text) -> near units -> near lists

A page may look like another and say something else, so pages whose texts hold other numbers are never even compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from shardkit.engine import map_ordered
from shardkit.errors import IntegrityError
from shardkit.prepare.components import components
from shardkit.prepare.dedup import near_text, perceptual
from shardkit.prepare.dedup.buckets import PairSet, bucket_pairs
from shardkit.prepare.dedup.edges import Indices, NearEdges
from shardkit.prepare.dedup.inputs import Inputs, Positions
from shardkit.prepare.dedup.keys import Keys, asset_keys, dense
from shardkit.prepare.dedup.perceptual import ImageHashes
from shardkit.prepare.dedup.signatures import Signed

_ODD = np.uint64(0x9E3779B97F4A7C15)
_LIKE = replace(near_text.PRESETS["ocr"], min_tokens=4)
"""Two readings of a page, of which 3 characters in 100 differ at most, share 6 in 10 pairs of words."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Units:
    of_image: Indices
    """[M] the unit of each image."""
    page: npt.NDArray[np.bool_]
    """[U] whether it is a page."""
    hashes: ImageHashes | None
    """[U]; None where nothing is looked for that looks alike."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lists:
    """The lists of images that rows have, each distinct one once."""

    of_row: Indices
    """[N] the row's list, -1 without an image."""
    page: npt.NDArray[np.bool_]
    """[lists] whether one of its images is a page."""
    edges: NearEdges
    """Pairs of lists of one length whose images are near one by one; the score is the lowest of theirs."""
    crowded: npt.NDArray[np.bool_]
    """[lists] whether one of its images shares keys with more images than it was compared with."""
    units: Units | None = None
    """None where nothing is looked for that looks alike."""
    unit_of: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    begin: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    length: Indices = field(default_factory=lambda: np.empty(0, np.int64))
    """The units of a list's images: unit_of[begin[k]] and the length[k] - 1 behind it."""

    def __len__(self) -> int:
        return len(self.page)

    @classmethod
    def none(cls, num_rows: int) -> Lists:
        """Nobody asked for any."""
        nothing = np.empty(0, np.bool_)
        return cls(of_row=np.full(num_rows, -1), page=nothing, edges=NearEdges.none(), crowded=nothing)


def find_lists(inputs: Inputs, signed: Signed, *, transforms: frozenset[str], near: bool, workers: int = 1) -> Lists:
    """Number the lists and, with `near`, find those that look alike.

    Raises:
        IntegrityError: where tables/assets lacks an image that a row has.
    """
    num_rows = inputs.num_rows
    units = units_of(inputs, signed, near=near)
    lengths = signed.images.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    # Images of a row stand together; slices of workers come in any order of rows.
    order = np.argsort(signed.image_rows, kind="stable")
    unit_of = units.of_image[order]
    has = np.flatnonzero(lengths > 0)
    keys = _chained(unit_of.astype(np.uint64), starts[has], lengths[has])
    of_row = np.full(num_rows, -1)
    of_row[has] = dense(np.stack([keys, lengths[has].astype(np.uint64)], axis=1))
    num_lists = int(of_row.max(initial=-1)) + 1
    first_row = np.zeros(num_lists, np.int64)
    first_row[of_row[has][::-1]] = has[::-1]
    begin, length = starts[first_row], lengths[first_row]
    page = np.zeros(num_lists, np.bool_)
    np.logical_or.at(page, np.repeat(np.arange(num_lists), length), units.page[unit_of[_ranges(begin, length)]])
    if units.hashes is None or not num_lists:
        nothing = np.zeros(num_lists, np.bool_)
        return Lists(of_row=of_row, page=page, edges=NearEdges.none(perceptual.DETAILS), crowded=nothing)
    alone = np.flatnonzero(lengths == 1)
    spoken = _spoken(inputs, signed, (alone, unit_of[starts[alone]]), units.hashes, workers)
    looked = perceptual.search(units.hashes, transforms=transforms, spoken=spoken)
    crowded = np.zeros(num_lists, np.bool_)
    np.logical_or.at(crowded, np.repeat(np.arange(num_lists), length), looked.crowded[unit_of[_ranges(begin, length)]])
    return Lists(
        of_row=of_row,
        page=page,
        edges=near_lists(looked.edges, len(units.page), unit_of, begin, length),
        crowded=crowded,
        units=units,
        unit_of=unit_of,
        begin=begin,
        length=length,
    )


def measure_lists(lists: Lists, one: Indices, two: Indices, *, transforms: frozenset[str]) -> NearEdges:
    """Of some pairs of lists those that look alike, down to the floor.

    Args:
        one: [P] and two, one < two; each pair once.
    """
    assert lists.units is not None, "they were not looked at"
    assert lists.units.hashes is not None, "they were not looked at"
    measure = partial(perceptual.measure, lists.units.hashes, transforms=transforms)
    return measured_lists(measure, lists.unit_of, lists.begin, lists.length, one, two)


def measured_lists(  # noqa: PLR0917 - lists as near_lists takes them, and pairs of them
    measure: Callable[[Indices, Indices], NearEdges],
    unit_of: Indices,
    begin: Indices,
    length: Indices,
    one: Indices,
    two: Indices,
) -> NearEdges:
    """Of some pairs of lists those whose images are near one by one.

    Args:
        measure: pairs of units, ascending -> those that are near.
    """
    same = length[one] == length[two]
    one, two = one[same], two[same]
    left, right = (unit_of[_ranges(begin[side], length[one])] for side in (one, two))
    low, high = np.minimum(left, right), np.maximum(left, right)
    wanted = np.unique(((low << 32) | high)[low != high])
    edges = measure(wanted >> 32, wanted & 0xFFFFFFFF)
    score, detail = _weakest(edges, (one, two), unit_of, begin, length)
    found = np.flatnonzero(score > 0)
    found = found[np.lexsort((two[found], one[found]))]
    return NearEdges(one=one[found], two=two[found], score=score[found], detail=detail[found])


def _spoken(
    inputs: Inputs, signed: Signed, alone: tuple[Positions, Indices], hashes: ImageHashes, workers: int
) -> perceptual.Spoken:
    """The texts of rows with one image, as the matcher of images asks for them.

    Args:
        alone: ascending rows with one image each, and these images.
    """
    rows, units = alone

    def like(some: Indices) -> Iterator[tuple[Indices, Keys]]:
        own = np.flatnonzero(np.isin(units, some) & (signed.texts[rows] != 0))
        jobs = list(inputs.slices(rows[own]))
        parts = list(map_ordered(partial(near_text.sign_slice, _LIKE), jobs, workers=workers))
        own = np.searchsorted(rows, np.concatenate([np.empty(0, np.int64), *(job.positions for job in jobs)]))
        for band in range(_LIKE.bands):
            keys = np.concatenate([np.empty(0, np.uint64), *(part.keys[band] for part in parts)])
            there = np.flatnonzero(keys)
            shown = units[own[there]]
            yield shown, (keys[there] ^ hashes.salt[shown]) | np.uint64(1)

    both = np.unique(np.stack([units.astype(np.uint64), signed.texts[rows]], axis=1), axis=0)
    return perceptual.Spoken(units=both[:, 0].astype(np.int64), texts=both[:, 1], like=like)


def near_lists(edges: NearEdges, num_units: int, unit_of: Indices, begin: Indices, length: Indices) -> NearEdges:
    """Pairs of lists from pairs of units.

    Args:
        unit_of: the units of all lists' images, list `k` at begin[k] .. begin[k] + length[k].
    """
    cluster = components(num_units, [(edges.one, edges.two)]).astype(np.uint64)
    # Lists that may be near have images of the same clusters, one by one.
    pairs = PairSet()
    for number in np.unique(length).tolist():
        own = np.flatnonzero(length == number)
        if number == 1:
            # One list a unit: the pairs are those of the units, all of them.
            continue
        one, two, _ = bucket_pairs(_chained(cluster[unit_of], begin[own], length[own]) | np.uint64(1))
        pairs.add(own[one], own[two])
    one, two = pairs.result()
    single = np.full(num_units, -1)
    alone = np.flatnonzero(length == 1)
    single[unit_of[begin[alone]]] = alone
    both = np.flatnonzero((single[edges.one] >= 0) & (single[edges.two] >= 0))
    scores, details = _weakest(edges, (one, two), unit_of, begin, length)
    found = scores > 0
    first = np.concatenate([single[edges.one[both]], one[found]])
    second = np.concatenate([single[edges.two[both]], two[found]])
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((high, low))
    return NearEdges(
        one=low[order],
        two=high[order],
        score=np.concatenate([edges.score[both], scores[found]])[order],
        detail=np.concatenate([edges.detail[both], details[found]])[order],
    )


def _weakest(
    edges: NearEdges, pairs: tuple[Indices, Indices], unit_of: Indices, begin: Indices, length: Indices
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """[P] the lowest score of the images of two lists, side by side; 0 where two of them are not near."""
    one, two = pairs
    counts = length[one]
    pair = np.repeat(np.arange(len(one)), counts)
    left, right = unit_of[_ranges(begin[one], counts)], unit_of[_ranges(begin[two], counts)]
    low, high = np.minimum(left, right), np.maximum(left, right)
    known = (edges.one << 32) | edges.two
    wanted = (low << 32) | high
    at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    same = low == high
    hit = (known[at] == wanted) if len(known) else np.zeros(len(wanted), np.bool_)
    score = np.where(same, 1.0, np.where(hit, edges.score[at] if len(known) else 0.0, 0.0))
    order = np.lexsort((score, pair))
    weakest = order[np.searchsorted(pair[order], np.arange(len(one)))]
    detail = np.zeros((len(one), edges.detail.shape[1]), np.int32)
    measured = hit[weakest] & ~same[weakest]
    detail[measured] = edges.detail[at[weakest[measured]]]
    return score[weakest] if len(one) else np.empty(0), detail


def units_of(inputs: Inputs, signed: Signed, *, near: bool) -> Units:
    """The distinct images of all rows.

    Raises:
        IntegrityError: where tables/assets lacks an image that a row has.
    """
    columns = None if near else ("asset_id", "frame", "class")
    tables = [dataset.table("assets", columns) for dataset in inputs.datasets]
    keys = np.concatenate([asset_keys(table) for table in tables] or [np.empty(0, np.uint64)])
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys[order], signed.image_keys), max(len(keys) - 1, 0))
    if len(signed.image_keys) and not (len(keys) and (keys[order][at] == signed.image_keys).all()):
        raise IntegrityError(
            "an image of a row is not in tables/assets.parquet", hint="run `shardkit verify` on the inputs"
        )
    pages = [np.asarray(pc.fill_null(pc.equal(table["class"], "page"), False).to_numpy(), np.bool_) for table in tables]
    asset = order[at] if len(keys) else np.empty(0, np.int64)
    page = np.concatenate(pages)[asset] if len(keys) else np.empty(0, np.bool_)
    salt = np.where(page, signed.figures[signed.image_rows], np.uint64(0))
    of_image = dense(np.stack([signed.image_pixels, salt], axis=1))
    first = np.zeros(int(of_image.max(initial=-1)) + 1, np.int64)
    first[of_image[::-1]] = np.arange(len(of_image))[::-1]
    hashes = None
    if near:
        hashes = perceptual.joined([perceptual.read_hashes(table) for table in tables])
        hashes = hashes.take(asset[first], salt=salt[first])
    return Units(of_image=of_image, page=page[first], hashes=hashes)


def _chained(values: Keys, begin: Indices, length: Indices) -> Keys:
    """One key for each run of values; runs that differ in order or content differ."""
    out = np.zeros(len(begin), np.uint64)
    for place in range(int(length.max(initial=0))):
        longer = np.flatnonzero(length > place)
        mixed = (out[longer] ^ (values[begin[longer] + place] + np.uint64(place + 1))) * _ODD
        out[longer] = mixed ^ (mixed >> np.uint64(29))
    return out


def _ranges(begin: Indices, length: Indices) -> Indices:
    """begin[k] .. begin[k] + length[k] for each k, one after another."""
    ends = np.cumsum(length)
    places: Indices = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begin - (ends - length), length)
    return places
