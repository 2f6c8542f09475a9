"""What a near matcher answers: pairs that are nearer than its floor, each with its score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NearEdges:
    """E verified pairs of a matcher's units (distinct texts, distinct pictures, vectors).

    Pairs below the threshold that removes are kept down to the matcher's floor: how much another threshold would have
    removed is read off the scores, without comparing anything again.
    """

    one: Indices
    two: Indices
    """[E] numbers of units, one < two; each pair once, ascending by (one, two)."""
    score: npt.NDArray[np.float64]
    """[E] from 0 to 1, higher is nearer."""
    detail: npt.NDArray[np.int32]
    """[E, D] numbers for the matcher's words of evidence."""

    def __len__(self) -> int:
        return len(self.one)

    def above(self, threshold: float) -> NearEdges:
        return self.take(np.flatnonzero(self.score >= threshold))

    def take(self, places: Indices) -> NearEdges:
        return NearEdges(
            one=self.one[places], two=self.two[places], score=self.score[places], detail=self.detail[places]
        )

    @classmethod
    def none(cls, width: int = 0) -> NearEdges:
        empty = np.empty(0, np.int64)
        return cls(one=empty, two=empty, score=np.empty(0), detail=np.empty((0, width), np.int32))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowEdges:
    """E pairs of rows that are near, and what may follow from it."""

    one: Indices
    two: Indices
    """[E] numbers of rows."""
    level: npt.NDArray[np.int8]
    """[E] place in LEVELS."""
    score: npt.NDArray[np.float64]
    detail: npt.NDArray[np.int32]
    """[E, 3]; a matcher with fewer numbers fills up with zeros."""
    removes_one: npt.NDArray[np.bool_]
    removes_two: npt.NDArray[np.bool_]
    """[E] whether that row may go where the other stays."""

    def __len__(self) -> int:
        return len(self.one)

    def take(self, places: Indices | npt.NDArray[np.bool_]) -> RowEdges:
        return RowEdges(
            one=self.one[places],
            two=self.two[places],
            level=self.level[places],
            score=self.score[places],
            detail=self.detail[places],
            removes_one=self.removes_one[places],
            removes_two=self.removes_two[places],
        )

    @classmethod
    def none(cls) -> RowEdges:
        rows, flags = np.empty(0, np.int64), np.empty(0, np.bool_)
        return cls(
            one=rows,
            two=rows,
            level=np.empty(0, np.int8),
            score=np.empty(0),
            detail=np.empty((0, DETAILS), np.int32),
            removes_one=flags,
            removes_two=flags,
        )


DETAILS = 3


def row_edges(
    one: Indices,
    two: Indices,
    *,
    level: int,
    edges: NearEdges,
    of: Indices,
    removes_one: npt.NDArray[np.bool_] | bool = True,
    removes_two: npt.NDArray[np.bool_] | bool = True,
) -> RowEdges:
    """Pairs of rows with the scores of the unit pairs `of` that they come from."""
    detail = np.zeros((len(one), DETAILS), np.int32)
    detail[:, : edges.detail.shape[1]] = edges.detail[of]
    return RowEdges(
        one=one,
        two=two,
        level=np.full(len(one), level, np.int8),
        score=edges.score[of],
        detail=detail,
        removes_one=np.broadcast_to(np.asarray(removes_one, np.bool_), one.shape).copy(),
        removes_two=np.broadcast_to(np.asarray(removes_two, np.bool_), one.shape).copy(),
    )


def joined(parts: Sequence[RowEdges]) -> RowEdges:
    """All edges of the parts; of several between two rows the strictest level's, then the best score's, stays."""
    one = np.concatenate([np.minimum(part.one, part.two) for part in parts])
    two = np.concatenate([np.maximum(part.one, part.two) for part in parts])
    swapped = np.concatenate([part.one > part.two for part in parts])
    ones = np.concatenate([part.removes_one for part in parts])
    twos = np.concatenate([part.removes_two for part in parts])
    whole = RowEdges(
        one=one,
        two=two,
        level=np.concatenate([part.level for part in parts]),
        score=np.concatenate([part.score for part in parts]),
        detail=np.concatenate([part.detail for part in parts]),
        removes_one=np.where(swapped, twos, ones),
        removes_two=np.where(swapped, ones, twos),
    )
    order = np.lexsort((-whole.score, whole.level, two, one))
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(one[order]) != 0) | (np.diff(two[order]) != 0)
    return whole.take(order[new & (one[order] != two[order])])
