"""Who keeps whom: pure arrays, no files.

Levels go from the strictest to the loosest; at each, rows of equal signature form a group and its best row stays. In
the end every removed row equals its keeper directly, at the level that is recorded for it: no chains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.keys import group_starts

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Decision:
    keeper: Indices
    """[K] the row that stays in its place: itself, where it is kept."""
    level: npt.NDArray[np.int8]
    """[K] number of the level at which the two are equal; -1 where the row is kept."""

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
    # A row that equals only a removed row, and not the one that stays, is kept: it is nobody's duplicate any more.
    return Decision(keeper=np.where(found < 0, itself, keeper), level=found)


def stars(groups: Indices, rank: Indices) -> tuple[Indices, Indices]:
    """Pairs (best row of a group, each other row of it); groups of one give none, -1 is no group."""
    alive = np.flatnonzero(groups >= 0)
    order = alive[np.lexsort((rank[alive], groups[alive]))]
    starts = group_starts(groups[order])
    centres = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    others = order != centres
    return centres[others], order[others]
