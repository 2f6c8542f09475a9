"""What is near and stands on two sides, by the matchers of dedup, on texts and looks that were computed again.

    texts                                     -> near_text       whatever their images
    pictures that look alike                  -> near_picture    whatever their texts; blank ones never
    one of them a page                        -> near_page       only where their texts agree, or neither has one
    vectors of examples or of images          -> embedding

Units (distinct texts, pictures, vectors) are compared, not rows; a pair of units is apart where a row of one stands on
another side than a row of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.engine import Progress
from shardkit.media.phash import CLASSES
from shardkit.prepare.audit.leaks import Found, among
from shardkit.prepare.audit.rules import Rules
from shardkit.prepare.audit.sides import Indices, Side
from shardkit.prepare.dedup import near_text, perceptual, semantic
from shardkit.prepare.dedup.edges import NearEdges
from shardkit.prepare.dedup.embeddings import ASSET, EXAMPLE, read_vectors
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.dedup.keys import Keys, dense
from shardkit.prepare.dedup.near import agreement
from shardkit.prepare.dedup.tuples import crossed

NEAR_KINDS = {
    "perceptual": ("near_picture", "near_page"),
    "text": ("near_text",),
    "semantic": ("embedding",),
}
"""Level -> kinds of leaks that it finds."""

_PAGE = CLASSES.index("page")


@dataclass(frozen=True, kw_only=True, eq=False)
class Units:
    """U units and the K rows that have them."""

    of: Indices
    """[K] ascending"""
    positions: Indices
    """[K] number of the row"""
    sides: Indices
    """[K] on which side the row is"""
    size: int
    listed: npt.NDArray[np.bool_]
    """[U] whether the split lists the unit as boilerplate"""

    def rows(self, unit: int) -> Indices:
        begin, end = np.searchsorted(self.of, [unit, unit + 1])
        return self.positions[begin:end]

    @cached_property
    def least(self) -> Indices:
        least = np.full(self.size, np.iinfo(np.int64).max)
        np.minimum.at(least, self.of, self.sides)
        return least

    @cached_property
    def most(self) -> Indices:
        most = np.full(self.size, -1)
        np.maximum.at(most, self.of, self.sides)
        return most

    def apart(self, edges: NearEdges) -> npt.NDArray[np.bool_]:
        """[E] whether the two units of an edge stand on two sides."""
        low = np.minimum(self.least[edges.one], self.least[edges.two])
        apart: npt.NDArray[np.bool_] = low != np.maximum(self.most[edges.one], self.most[edges.two])
        return apart


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairs:
    """Pairs of units on two sides, of one kind."""

    kind: str
    level: str
    units: Units
    edges: NearEdges
    permitted: npt.NDArray[np.bool_]
    """[E]"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ground:
    """The N rows that were read, and what is known of them."""

    inputs: Inputs
    sides: Sequence[Side]
    """Of the shards of examples, in order."""
    side_of: Indices
    """[N]"""
    boilerplate: Mapping[str, Keys]
    """Kind of tables/boilerplate -> [P, 2] bits of its values"""
    rules: Rules

    def positions(self, shards: Indices, rows: Indices) -> Indices:
        """Numbers of rows; in each shard they ascend."""
        known = (self.inputs.shards.astype(np.int64) << 32) | self.inputs.rows
        return np.searchsorted(known, (shards << 32) | rows)

    def of_images(self) -> Indices:
        """Number of the row of each image."""
        shards = [np.full(len(side.images.rows), side.shard) for side in self.sides]
        rows = [side.images.rows.astype(np.int64) for side in self.sides]
        return self.positions(np.concatenate([_nothing(), *shards]), np.concatenate([_nothing(), *rows]))

    def listed(self, kinds: Sequence[str], values: Keys) -> npt.NDArray[np.bool_]:
        """[M] whether values are boilerplate of one of the kinds."""
        found = np.zeros(len(values), np.bool_)
        for kind in kinds:
            if kind in self.boilerplate:
                found |= among(values, self.boilerplate[kind])
        return found

    def units(self, of: Indices, positions: Indices, size: int, listed: npt.NDArray[np.bool_]) -> Units:
        order = np.lexsort((positions, of))
        at = positions[order]
        return Units(of=of[order], positions=at, sides=self.side_of[at], size=size, listed=listed)

    def pairs(self, kind: str, level: str, units: Units, edges: NearEdges) -> Pairs:
        """The edges that lead from one side to another."""
        edges = edges.take(np.flatnonzero(units.apart(edges)))
        one, two = units.listed[edges.one], units.listed[edges.two]
        permitted = one & two if self.rules.both_listed else one | two
        return Pairs(kind=kind, level=level, units=units, edges=edges, permitted=permitted)


def near_texts(ground: Ground, texts: Found, *, workers: int, scratch: Path, on_progress: Progress) -> Pairs:
    """Texts that are near to one on another side.

    Args:
        texts: all occurrences of compared texts, text by text.
    """
    starts = texts.starts()
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(texts.values))))
    positions = ground.positions(texts.shards, texts.rows)
    # The matcher wants one row of each text, ascending.
    first = positions[starts]
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    values = texts.values[starts][order]
    kinds = ("near_text",) if ground.rules.both_listed else ("text",)
    units = ground.units(place[number], positions, len(starts), ground.listed(kinds, values))
    edges = near_text.find(
        ground.inputs,
        first[order],
        preset=near_text.PRESETS[ground.rules.preset],
        workers=workers,
        scratch=scratch,
        on_progress=on_progress,
    )
    return ground.pairs("near_text", "text", units, edges.above(ground.rules.thresholds["text"]))


def near_pictures(ground: Ground, texts: Found) -> Iterator[Pairs]:
    """Pictures, then pages.

    Args:
        texts: as of near_texts.
    """
    images = [side.images for side in ground.sides]
    pixels = np.concatenate([np.empty((0, 2), np.uint64), *(one.pixels for one in images)])
    figures = np.concatenate([np.empty(0, np.uint64), *(one.figures for one in images)])
    begins = np.cumsum([0, *(len(one.hashes) for one in images)])
    picture = np.concatenate(
        [_nothing(), *(one.picture + begin for one, begin in zip(images, begins[:-1].tolist(), strict=True))]
    )
    hashes = perceptual.joined([one.hashes for one in images])
    page = hashes.classes[picture] == _PAGE
    salt = np.where(page, figures, np.uint64(0))
    unit_of = dense(np.stack([dense(pixels).astype(np.uint64) + np.uint64(1), salt], axis=1))
    num_units = int(unit_of.max(initial=-1)) + 1
    first = np.zeros(num_units, np.int64)
    first[unit_of[::-1]] = np.arange(len(unit_of))[::-1]
    edges = perceptual.find(hashes.take(picture[first], salt=salt[first]), transforms=ground.rules.transforms)
    edges = edges.above(ground.rules.thresholds["perceptual"])
    kinds = ("near_pixel",) if ground.rules.both_listed else ("pixel",)
    units = ground.units(unit_of, ground.of_images(), num_units, ground.listed(kinds, pixels[first]))
    of_page = page[first]
    with_page = of_page[edges.one] | of_page[edges.two]
    yield ground.pairs("near_picture", "perceptual", units, edges.take(np.flatnonzero(~with_page)))
    found = ground.pairs("near_page", "perceptual", units, edges.take(np.flatnonzero(with_page)))
    agree = _agreeing_pages(ground, found, of_page, texts)
    yield Pairs(
        kind=found.kind,
        level=found.level,
        units=units,
        edges=found.edges.take(agree),
        permitted=found.permitted[agree],
    )


def _agreeing_pages(ground: Ground, found: Pairs, of_page: npt.NDArray[np.bool_], texts: Found) -> Indices:
    """Pairs of which two rows on two sides have texts that agree: equal, or of two pages with few characters apart, or
    none in both. Of many rows of a unit the first of each text and side are asked, 16 of them (tuples.FULL)."""
    units, edges = found.units, found.edges
    text_of = np.full(len(ground.side_of), -1)
    starts = texts.starts()
    text_of[ground.positions(texts.shards, texts.rows)] = np.repeat(
        np.arange(len(starts)), np.diff(np.append(starts, len(texts.values)))
    )
    wanted = np.flatnonzero(np.isin(units.of, np.concatenate([edges.one, edges.two])))
    facts = np.stack([units.of[wanted], text_of[units.positions[wanted]], units.sides[wanted]])
    _, different = np.unique(facts, axis=1, return_index=True)
    some = wanted[different]
    # Text by text, so that all sides come in turn.
    some = some[np.lexsort((units.sides[some], text_of[units.positions[some]]))]
    one, two, edge = crossed(edges.one, edges.two, units.of[some])
    one, two = some[one], some[two]
    across = units.sides[one] != units.sides[two]
    one, two, edge = units.positions[one[across]], units.positions[two[across]], edge[across]
    same = text_of[one] == text_of[two]
    both_pages = of_page[edges.one[edge]] & of_page[edges.two[edge]]
    unsure = np.flatnonzero(~same & both_pages & (text_of[one] >= 0) & (text_of[two] >= 0))
    close = unsure[agreement(ground.inputs, one[unsure], two[unsure])]
    return np.union1d(edge[same], edge[close])


def near_vectors(ground: Ground, files: Sequence[Path], *, column: str | None, scratch: Path) -> Iterator[Pairs]:
    """Neighbours by the vectors of examples, and by those of images.

    Raises:
        ConfigError, SourceError, OutputError: see `read_vectors`.
    """
    of_rows = np.concatenate([np.empty(0, np.uint64), *(side.ids for side in ground.sides)])
    keys = np.concatenate([np.empty(0, np.uint64), *(side.images.keys for side in ground.sides)])
    examples, of_row = np.unique(of_rows, return_inverse=True)
    images, of_image = np.unique(keys, return_inverse=True)
    occurrences = {
        EXAMPLE: (examples, of_row.astype(np.int64), np.arange(len(of_rows))),
        ASSET: (images, of_image.astype(np.int64), ground.of_images()),
    }
    found = read_vectors(files, column=column, units={EXAMPLE: examples, ASSET: images}, scratch=scratch)
    for kind, vectors in found.items():
        unit_keys, of, positions = occurrences[kind]
        listed = np.zeros(len(unit_keys), np.bool_)
        if kind == EXAMPLE and "near_vector" in ground.boilerplate:
            listed = np.isin(unit_keys, ground.boilerplate["near_vector"][:, 0])
        units = ground.units(of, positions, len(unit_keys), listed)
        yield ground.pairs(
            "embedding", "semantic", units, semantic.find(vectors).above(ground.rules.thresholds["semantic"])
        )


def _nothing() -> Indices:
    return np.empty(0, np.int64)
