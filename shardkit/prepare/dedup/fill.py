"""Pairs of rows that are missing because crowded keys pair each unit with few others only.

    before   texts of one crowd beside images that look alike, and the reverse: the other half of the pair is measured
    then     a row stays, it is near one that goes, and was never compared with that one's keeper: it is now

Rounds go on until no row that stays has an untried keeper beside it, so copies of one thing leave one, however many there
are. The cost stays linear: it is the keeper that a row is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.engine import Progress
from shardkit.prepare.dedup import near_text
from shardkit.prepare.dedup.buckets import PairSet
from shardkit.prepare.dedup.complete import merged
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.prepare.dedup.edges import Indices, NearEdges, RowEdges
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.dedup.levels import SEMANTIC
from shardkit.prepare.dedup.near import Found, distinct_texts, find_pairs
from shardkit.prepare.dedup.pictures import measure_lists
from shardkit.prepare.dedup.signatures import Signed
from shardkit.prepare.dedup.tuples import Alive, Near, crossed
from shardkit.prepare.dedup.vectors import NearVectors


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Filling:
    """What pairs are measured with."""

    config: DedupConfig
    inputs: Inputs
    signed: Signed
    scratch: Path
    on_progress: Progress

    def lists(self, near: Near, one: Indices, two: Indices, tried: _Tried) -> Near:
        """Measure pairs of lists that were not tried."""
        one, two = tried.fresh(one, two)
        if not len(one):
            return near
        more = measure_lists(near.lists, one, two, transforms=frozenset(self.config.transforms))
        return replace(near, lists=replace(near.lists, edges=merged(near.lists.edges, more)))

    def texts(self, near: Near, one: Indices, two: Indices, tried: _Tried) -> Near:
        """Measure pairs of texts that were not tried."""
        one, two = tried.fresh(one, two)
        if not len(one):
            return near
        pairs = PairSet()
        pairs.add(one, two)
        more = near_text.verify(
            self.inputs,
            distinct_texts(self.signed)[0],
            pairs,
            preset=self.config.preset_of_text,
            workers=self.config.workers,
            scratch=self.scratch,
            on_progress=self.on_progress,
        )
        return replace(near, texts=merged(near.texts, more))


def find_all(
    filling: Filling,
    alive: Alive,
    near: Near,
    keeper_of: Callable[[RowEdges], Indices],
    thresholds: npt.NDArray[np.float64],
) -> Found:
    """Row pairs of all near levels, those of crowds included.

    Args:
        keeper_of: edges -> [N] the row that each goes for, itself where it stays.
        thresholds: by place in LEVELS.
    """
    config, inputs = filling.config, filling.inputs
    lists_tried, texts_tried = _Tried(near.lists.edges), _Tried(near.texts)
    vectors_tried = _Tried(near.vectors.examples), _Tried(near.vectors.lists)
    every = (lists_tried, texts_tried, *vectors_tried)
    looked = "perceptual" in config.levels and near.lists.units is not None
    if looked and "text" in config.levels:
        near = _other_halves(filling, alive, near, lists_tried, texts_tried)
    while True:
        found = find_pairs(config, inputs, alive, near)
        edges = found.edges.take(found.edges.score >= thresholds[found.edges.level])
        beside = _beside_keepers(edges, keeper_of(edges), num_new=inputs.num_new)
        row, keeper = (side[beside.level < SEMANTIC] for side in (beside.one, beside.two))
        before = sum(tried.num_asked for tried in every)
        if looked:
            near = filling.lists(near, near.lists.of_row[row], near.lists.of_row[keeper], lists_tried)
        if "text" in config.levels:
            near = filling.texts(near, near.text_of[row], near.text_of[keeper], texts_tried)
        near = replace(near, vectors=_vectors(near, beside.one, beside.two, vectors_tried))
        if sum(tried.num_asked for tried in every) == before:
            return found


def _other_halves(filling: Filling, alive: Alive, near: Near, lists_tried: _Tried, texts_tried: _Tried) -> Near:
    """Measure images of near texts and texts of near images, where both are crowded."""
    one, two, _ = crossed(near.texts.one, near.texts.two, np.where(alive.lists < 0, -1, alive.texts))
    left, right = alive.lists[one], alive.lists[two]
    crowd = near.lists.crowded[left] & near.lists.crowded[right]
    edges = near.lists.edges.above(filling.config.threshold("perceptual"))
    near = filling.lists(near, left[crowd], right[crowd], lists_tried)
    one, two, _ = crossed(edges.one, edges.two, alive.lists)
    left, right = alive.texts[one], alive.texts[two]
    known = (left >= 0) & (right >= 0)
    left, right = left[known], right[known]
    crowd = near.crowded[left] & near.crowded[right]
    return filling.texts(near, left[crowd], right[crowd], texts_tried)


def _vectors(near: Near, row: Indices, keeper: Indices, tried: tuple[_Tried, _Tried]) -> NearVectors:
    """Measure the vectors of rows and keepers that were not tried."""
    vectors = near.vectors
    if vectors.measure_examples is not None:
        one, two = tried[0].fresh(vectors.example_of[row], vectors.example_of[keeper])
        vectors = replace(vectors, examples=merged(vectors.examples, vectors.measure_examples(one, two)))
    if vectors.measure_lists is not None:
        one, two = tried[1].fresh(near.lists.of_row[row], near.lists.of_row[keeper])
        vectors = replace(vectors, lists=merged(vectors.lists, vectors.measure_lists(one, two)))
    return vectors


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Beside:
    """P rows that stay beside one that goes."""

    one: Indices
    two: Indices
    """[P] each: the row, and the keeper of that one."""
    level: npt.NDArray[np.int8]
    """[P] level at which it is near the one that goes."""


def _beside_keepers(edges: RowEdges, keeper: Indices, *, num_new: int) -> _Beside:
    here, there = np.concatenate([edges.one, edges.two]), np.concatenate([edges.two, edges.one])
    beside = (here < num_new) & (keeper[here] == here) & (keeper[there] != there) & (keeper[there] != here)
    level = np.concatenate([edges.level, edges.level])
    return _Beside(one=here[beside], two=keeper[there[beside]], level=level[beside])


class _Tried:
    """Pairs of units that were compared: the edges that are there, and what was asked since."""

    def __init__(self, edges: NearEdges) -> None:
        self._codes = np.sort(_codes(edges.one, edges.two))
        self.num_asked = 0

    def fresh(self, one: Indices, two: Indices) -> tuple[Indices, Indices]:
        """Pairs of two different units that were not tried, each once, as one < two; they are now. -1 is no unit."""
        known = (one >= 0) & (two >= 0) & (one != two)
        codes = np.setdiff1d(_codes(one[known], two[known]), self._codes)
        self._codes = np.union1d(self._codes, codes)
        self.num_asked += len(codes)
        return codes >> 32, codes & 0xFFFFFFFF


def _codes(one: Indices, two: Indices) -> Indices:
    return (np.minimum(one, two) << 32) | np.maximum(one, two)
