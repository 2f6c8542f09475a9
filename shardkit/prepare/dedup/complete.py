"""Edges that are missing because a large bucket pairs its members with few of them only.

    bucket 0 1 2 3 4 5, paired with its first two      the best is 5: it takes 0 and 1 with it,
    edges (0, x) (1, x)                                and 2 3 4 would stay, near to rows that are gone only

Which unit is kept is known after the pairs are. So a unit that would stay beside a neighbour that goes is compared with
that neighbour's keeper, too; it is the keeper that decides, hence the cost stays linear.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shardkit.prepare.dedup.buckets import Indices, PairSet
from shardkit.prepare.dedup.edges import NearEdges
from shardkit.prepare.dedup.keys import Keys

_HALF = np.uint64(32)


def complete(edges: NearEdges, rank: Indices, *, threshold: float, verify: Callable[[PairSet], NearEdges]) -> NearEdges:
    """The edges, and those between units that would stay and the keepers of their neighbours.

    Rounds go on until no unit that stays has an untried keeper beside it; each round tries pairs that were not tried.

    Args:
        rank: [U] lower is rather kept; no two are equal.
        threshold: score from which a unit goes for another.
        verify: pairs of units -> the edges among them.
    """
    tried = _codes(edges.one, edges.two)
    while True:
        near = edges.above(threshold)
        keeper = keepers(near, rank)
        here, there = np.concatenate([near.one, near.two]), np.concatenate([near.two, near.one])
        beside = (keeper[here] == here) & (keeper[there] != there) & (keeper[there] != here)
        one, two = here[beside], keeper[there[beside]]
        one, two = np.minimum(one, two), np.maximum(one, two)
        fresh = ~np.isin(_codes(one, two), tried)
        if not fresh.any():
            return edges
        pairs = PairSet()
        pairs.add(one[fresh], two[fresh])
        tried = np.union1d(tried, _codes(one[fresh], two[fresh]))
        edges = merged(edges, verify(pairs))


def keepers(edges: NearEdges, rank: Indices) -> Indices:
    """[U] the unit that each goes for, itself where it stays.

    From the best unit to the worst: one that is still there stays, and its neighbours go.
    """
    here, there = np.concatenate([edges.one, edges.two]), np.concatenate([edges.two, edges.one])
    order = np.argsort(here, kind="stable")
    begin = np.searchsorted(here[order], np.arange(len(rank) + 1)).tolist()
    neighbours = there[order].tolist()
    keeper = np.arange(len(rank)).tolist()
    active = np.unique(here)
    for unit in active[np.argsort(rank[active])].tolist():
        if keeper[unit] != unit:
            continue
        for other in neighbours[begin[unit] : begin[unit + 1]]:
            if keeper[other] == other:
                keeper[other] = unit
    return np.array(keeper, np.int64)


def _codes(one: Indices, two: Indices) -> Keys:
    codes: Keys = (one.astype(np.uint64) << _HALF) | two.astype(np.uint64)
    return codes


def merged(edges: NearEdges, more: NearEdges) -> NearEdges:
    """All edges of two sets without a common one."""
    one, two = np.concatenate([edges.one, more.one]), np.concatenate([edges.two, more.two])
    order = np.lexsort((two, one))
    return NearEdges(
        one=one[order],
        two=two[order],
        score=np.concatenate([edges.score, more.score])[order],
        detail=np.concatenate([edges.detail, more.detail])[order],
    )
