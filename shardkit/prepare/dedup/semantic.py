"""Level `semantic`: units whose vectors point the same way, whatever model they come from.

    vectors -> k-means -> each vector goes to the blocks of its nearest 2 centroids -> all pairs inside a block

The scheme of SemDeDup (Abbas and others, arXiv 2303.09540), with a second block for each vector: near pairs that a
border divides are mostly together in the other one. All numbers are whole (embeddings.py), those of centroids too, and
units are numbered by id: neither machines nor the order of inputs change what is found. The work is matrix products,
which numpy spreads over the cores by itself: worker processes on top of its threads made it slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.prepare.dedup.edges import NearEdges
from shardkit.prepare.dedup.embeddings import SCALE, Indices, Steps, Stored, Vectors

VERSION = 1
FLOOR = 0.7
"""Cosine; see docs/decisions for what lies there."""
THRESHOLD = 0.95
THRESHOLDS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99)
NEIGHBOURS = 16
"""Pairs that a unit answers in a block, its nearest ones: a thousand equal vectors do not give a million pairs."""
MAX_BLOCK = 4096
"""Units that are compared each with each; a block with more is divided again."""
_BLOCKS = 2
_DEPTH = 3
"""Times that a block is divided again; each may double the work, because a vector goes to two blocks."""
_DIVIDED = 0.9
"""A part with a larger share of its block was not divided."""
_ROUNDS = 8
_SAMPLE = 64
"""Vectors a centroid that k-means looks at."""
_ROWS = 1024

Cosines = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Search:
    """What was looked at and found."""

    edges: NearEdges
    num_compared: int
    """Units that have a vector."""
    num_blocks: int
    num_crowded: int
    """Units with more than NEIGHBOURS near ones in a block: their farther pairs are not answered."""


def evidence(score: float, detail: Sequence[int]) -> str:  # noqa: ARG001 - one call for all near matchers
    return f"vectors: cosine {score:.4f}"


def find(vectors: Vectors, *, floor: float = FLOOR, num_clusters: int | None = None, seed: int = 0) -> NearEdges:
    """Near pairs among units; see `search`."""
    return search(vectors, floor=floor, num_clusters=num_clusters, seed=seed).edges


def search(vectors: Vectors, *, floor: float = FLOOR, num_clusters: int | None = None, seed: int = 0) -> Search:
    """Pairs of units with a cosine of at least `floor`, as far as they share a block.

    Args:
        floor: above 0; the score of a pair is its cosine, rounding cut off at 1.
        num_clusters: centroids; by default the root of the number of vectors, and 1 for up to MAX_BLOCK.
        seed: of the vectors that k-means starts from.
    """
    units = np.flatnonzero(vectors.have)
    blocks = list(_blocks(vectors.stored, units, num_clusters, seed))
    parts = [_compare(vectors.stored, floor, block) for block in blocks]
    crowded = np.zeros(len(vectors.have), np.bool_)
    for part in parts:
        crowded[part.crowded] = True
    one, two, score = (
        np.concatenate([kind(0), *(getattr(part, name) for part in parts)])
        for name, kind in (("one", _no_units), ("two", _no_units), ("score", np.zeros))
    )
    # A pair of two blocks has one cosine: either answer will do.
    _, first = np.unique(one << 32 | two, return_index=True)
    edges = NearEdges(one=one[first], two=two[first], score=score[first], detail=np.empty((len(first), 0), np.int32))
    return Search(edges=edges, num_compared=len(units), num_blocks=len(blocks), num_crowded=int(crowded.sum()))


def measure(vectors: Vectors, one: Indices, two: Indices, *, floor: float = FLOOR) -> NearEdges:
    """Of some pairs of units those with a cosine of at least `floor`.

    Args:
        one: [P] and two, one < two; each pair once, ascending.
    """
    points = vectors.stored.open()
    cosine = np.zeros(len(one))
    for start in range(0, len(one), _ROWS):
        part = slice(start, start + _ROWS)
        left, right = (points[side[part]].astype(np.float64) for side in (one, two))
        length = np.sqrt((left * left).sum(axis=1) * (right * right).sum(axis=1))
        cosine[part] = (left * right).sum(axis=1) / np.maximum(length, 1)
    near = np.flatnonzero((cosine >= floor) & vectors.have[one] & vectors.have[two])
    score = np.minimum(cosine[near], 1.0)
    return NearEdges(one=one[near], two=two[near], score=score, detail=np.empty((len(near), 0), np.int32))


def _no_units(size: int) -> Indices:
    return np.zeros(size, np.int64)


# ---------------------------------------------------------------------- blocks
def _blocks(stored: Stored, units: Indices, num_clusters: int | None, seed: int) -> Iterator[Indices]:
    """Blocks of ascending units, each of at most MAX_BLOCK."""
    waiting = [(units, num_clusters or 0, seed, 0)]
    while waiting:
        members, wanted, own_seed, depth = waiting.pop()
        if len(members) <= MAX_BLOCK and wanted <= 1:
            if len(members) > 1:
                yield members
            continue
        centroids = _centroids(stored, members, wanted or isqrt(len(members) - 1) + 1, own_seed)
        nearest = _nearest(stored, members, centroids)
        for number in range(len(centroids)):
            inside = members[(nearest == number).any(axis=1)]
            if len(inside) > MAX_BLOCK and (depth == _DEPTH or len(inside) > _DIVIDED * len(members)):
                # What centroids do not divide is all but equal: neighbours by number are as good as any.
                yield from (inside[start : start + MAX_BLOCK] for start in range(0, len(inside), MAX_BLOCK))
            else:
                waiting.append((inside, 0, mix64(own_seed, number), depth + 1))


def _centroids(stored: Stored, members: Indices, size: int, seed: int) -> Steps:
    """[k, width] directions in SCALE steps, k at most `size`; the same for the same members and seed."""
    vectors = stored.open()
    draws = {mix64(seed, "k-means", draw) % len(members) for draw in range(size * _SAMPLE)}
    # Ascending places read the file once; which of them the centroids start from is drawn apart.
    sample = np.array(sorted(draws), np.int64)
    points = vectors[members[sample]].astype(np.float32)
    order = sorted(range(len(sample)), key=lambda place: mix64(seed, "start", int(sample[place])))
    centroids = np.unique(points[order[:size]].astype(np.int16), axis=0)
    for _ in range(_ROUNDS):
        own = np.concatenate(
            [
                (points[start : start + _ROWS] @ centroids.T.astype(np.float32)).argmax(axis=1)
                for start in range(0, len(points), _ROWS)
            ]
        )
        sums = np.zeros(centroids.shape, np.int64)
        np.add.at(sums, own, points.astype(np.int64))
        moved = _directed(sums, centroids)
        if np.array_equal(moved, centroids):
            break
        centroids = moved
    return centroids


def _directed(sums: Indices, otherwise: Steps) -> Steps:
    """Sums of vectors as directions; where they cancel out or there is none, the centroid that was."""
    exact = sums.astype(np.float64)
    length = np.sqrt((sums * sums).sum(axis=1, keepdims=True).astype(np.float64))
    steps = np.rint(exact / np.where(length == 0, 1, length) * SCALE).astype(np.int16)
    return np.where(length == 0, otherwise, steps)


def _nearest(stored: Stored, members: Indices, centroids: Steps) -> npt.NDArray[np.int32]:
    """[n, 2] the centroids next to each vector; of equally near ones the first."""
    vectors, out = stored.open(), np.empty((len(members), _BLOCKS), np.int32)
    turned = centroids.T.astype(np.float32)
    for start in range(0, len(members), _ROWS):
        part = slice(start, start + _ROWS)
        products = vectors[members[part]].astype(np.float32) @ turned
        rows = np.arange(len(products))
        for place in range(_BLOCKS):
            out[part, place] = best = products.argmax(axis=1)
            if len(centroids) > 1:
                products[rows, best] = -np.inf
    return out


# ---------------------------------------------------------------------- pairs
@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Pairs:
    one: Indices
    two: Indices
    score: Cosines
    crowded: Indices


def _compare(stored: Stored, floor: float, units: Indices) -> _Pairs:
    """Near pairs of ascending units: of each its nearest NEIGHBOURS."""
    points = stored.open()[units].astype(np.float32)
    turned = points.T.copy()
    length = np.sqrt((points.astype(np.float64) ** 2).sum(axis=1))
    # Products are whole numbers and exact; this bound is below that of any pair, whatever the lengths.
    least = np.float32(floor * length.min() ** 2 * (1 - 1e-6))
    ones, twos, scores, crowded = [_no_units(0)], [_no_units(0)], [np.zeros(0)], [_no_units(0)]
    for start in range(0, len(units), _ROWS):
        products = points[start : start + _ROWS] @ turned
        rows = np.arange(len(products))
        products[rows, start + rows] = -1
        left, right = np.nonzero(products >= least)
        cosine = products[left, right].astype(np.float64) / (length[start + left] * length[right])
        # Nearest first, of equally near ones the first unit: all of a dense heap keep the same few.
        order = np.lexsort((right, -cosine, left))
        order = order[cosine[order] >= floor]
        left, right, cosine = left[order], right[order], cosine[order]
        counts = np.bincount(left, minlength=len(rows))
        near = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) < NEIGHBOURS
        crowded.append(units[start + np.flatnonzero(counts > NEIGHBOURS)])
        ones.append(np.minimum(left + start, right)[near])
        twos.append(np.maximum(left + start, right)[near])
        scores.append(np.minimum(cosine[near], 1.0))
    one, two = np.concatenate(ones), np.concatenate(twos)
    _, first = np.unique(one * len(units) + two, return_index=True)
    return _Pairs(
        one=units[one[first]],
        two=units[two[first]],
        score=np.concatenate(scores)[first],
        crowded=np.concatenate(crowded),
    )
