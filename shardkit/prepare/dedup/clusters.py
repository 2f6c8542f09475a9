"""Who keeps whom: pure arrays, no files.

First equality: levels go from the strictest to the loosest; at each, rows of equal signature form a group and its best
row stays. Then nearness, among the rows that are left: a row that stays takes its own neighbours with it, never theirs.
In the end every removed row is equal or near to its keeper directly, at the level that is recorded for it: no chains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.edges import RowEdges
from shardkit.prepare.dedup.keys import group_starts

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Decision:
    keeper: Indices
    """[K] the row that stays in its place: itself, where it is kept."""
    level: npt.NDArray[np.int8]
    """[K] number of the level at which the two are equal or near; -1 where the row is kept."""
    via: Indices
    """[K] number of the edge that the row was removed by; -1 where it equals its keeper, or is kept."""

    @property
    def removed(self) -> Indices:
        return np.flatnonzero(self.level >= 0)


def decide(equal: Mapping[str, Indices], removable: Mapping[str, npt.NDArray[np.bool_]], rank: Indices) -> Decision:
    """Choose a keeper for each row.

    Args:
        equal: level -> [K] number of the row's group at the level, -1 for none; strictest level first.
        removable: level -> [K] whether the level may remove the row; a row it may not is preferred as keeper.
        rank: [K] lower is better; no two are equal.
    """
    itself = np.arange(len(rank))
    keeper = itself.copy()
    for level, groups in equal.items():
        alive = np.flatnonzero((keeper == itself) & (groups >= 0))
        free = removable[level]
        order = alive[np.lexsort((rank[alive], free[alive], groups[alive]))]
        starts = group_starts(groups[order])
        anchors = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
        gone = free[order] & (order != anchors)
        keeper[order[gone]] = anchors[gone]
    while not np.array_equal(further := keeper[keeper], keeper):
        keeper = further
    found = np.full(len(rank), -1, np.int8)
    for number, (level, groups) in enumerate(equal.items()):
        same = (groups >= 0) & (groups == groups[keeper]) & removable[level] & (keeper != itself)
        found[same & (found < 0)] = number
    # A row that equals only a removed row, and not the one that stays, is kept: it is no longer a duplicate of any.
    return Decision(keeper=np.where(found < 0, itself, keeper), level=found, via=np.full(len(rank), -1))


def star(edges: RowEdges, places: Indices, rank: Indices, *, num_new: int) -> Indices:
    """[K] the edge by which each row goes, -1 where it stays.

    Rows are gone through from the best to the worst, those that may never go first. One that is still there stays, and
    its neighbours that may go, go.

    Args:
        places: numbers of the K rows, ascending; the ends of all edges are among them.
        rank: [K] lower is better; no two are equal.
        num_new: rows from this number on never go.
    """
    one, two = np.searchsorted(places, edges.one), np.searchsorted(places, edges.two)
    here, there = np.concatenate([one, two]), np.concatenate([two, one])
    removes = np.concatenate([edges.removes_two & (edges.two < num_new), edges.removes_one & (edges.one < num_new)])
    number = np.concatenate([np.arange(len(one))] * 2)
    may_go = np.zeros(len(places), np.bool_)
    may_go[there[removes]] = True
    here, there, number = here[removes], there[removes], number[removes]
    # Neighbours of the same row in the order of their edges: strictest level, best score first.
    order = np.lexsort((-edges.score[number], edges.level[number], here))
    here, there, number = here[order], there[order], number[order]
    begin = np.searchsorted(here, np.arange(len(places) + 1)).tolist()
    neighbours, through = there.tolist(), number.tolist()
    via, stays = [-1] * len(places), [False] * len(places)
    active = np.unique(here)
    for row in active[np.lexsort((rank[active], may_go[active]))].tolist():
        if via[row] >= 0:
            continue
        for at in range(begin[row], begin[row + 1]):
            other = neighbours[at]
            if via[other] < 0 and not stays[other]:
                via[other] = through[at]
        stays[row] = True
    return np.array(via, np.int64)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Choice:
    """Everything that a decision is made from but the thresholds."""

    same: Decision
    """By equality."""
    edges: RowEdges
    places: Indices
    """[K] numbers of the rows, ascending."""
    rank: Indices
    """[K]"""
    num_new: int
    """Rows from this number on always stay."""

    def at(self, thresholds: npt.NDArray[np.float64]) -> Decision:
        """The decision where only edges at or above the threshold of their level remove.

        Args:
            thresholds: by place in LEVELS.
        """
        edges, places = self.edges, self.places
        enough = np.flatnonzero(edges.score >= thresholds[edges.level])
        via = star(edges.take(enough), places, self.rank, num_new=self.num_new)
        gone = np.flatnonzero(via >= 0)
        via[gone] = enough[via[gone]]
        one, two = np.searchsorted(places, edges.one[via[gone]]), np.searchsorted(places, edges.two[via[gone]])
        keeper = np.arange(len(places))
        keeper[gone] = np.where(one == gone, two, one)
        # A row that equals one that went is near the same keeper.
        through = via[self.same.keeper]
        near = np.flatnonzero(through >= 0)
        level = self.same.level.copy()
        level[near] = np.maximum(level[near], edges.level[through[near]])
        return Decision(keeper=keeper[self.same.keeper], level=level, via=through)


def stars(groups: Indices, rank: Indices) -> tuple[Indices, Indices]:
    """Pairs (best row of a group, each other row of it); groups of one give none, -1 is no group."""
    alive = np.flatnonzero(groups >= 0)
    order = alive[np.lexsort((rank[alive], groups[alive]))]
    starts = group_starts(groups[order])
    centres = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    others = order != centres
    return centres[others], order[others]
