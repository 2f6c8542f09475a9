"""Pairs of rows from pairs of texts and of image lists: the decision on the tuple (images, text).

    images            text                 what follows
    near              equal or none        one goes                                   perceptual
    near, a page      agrees               one goes                                   perceptual
    near, a page      none                 both stay, for review
    near, no page     other                both stay, tied                            (a split keeps them together)
    equal or near     near                 one goes; a page only where it agrees      text
    none              near to any          the one without images goes                text
    other             near                 both stay, tied
    vectors near                           one goes                                   semantic

A text agrees with another when it holds the same figures and 3 of 100 characters differ at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.edges import Indices, NearEdges, RowEdges, joined, row_edges
from shardkit.prepare.dedup.keys import group_starts
from shardkit.prepare.dedup.levels import PERCEPTUAL, SEMANTIC, TEXT
from shardkit.prepare.dedup.pictures import Lists
from shardkit.prepare.dedup.signatures import NAMED, Signed
from shardkit.prepare.dedup.vectors import NearVectors

FULL = 16
"""Of many rows with one list and one text, the best are compared with those of another; the rest are equal to them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Near:
    """What the near matchers found, on their units."""

    lists: Lists
    texts: NearEdges
    text_of: Indices
    """[N] the row's text as the matcher numbers it; -1 for none that it knows."""
    crowded: npt.NDArray[np.bool_]
    """[U] texts that share keys with more texts than they were compared with."""
    vectors: NearVectors

    @classmethod
    def none(cls, num_rows: int) -> Near:
        """Of a run without near levels."""
        nothing = np.full(num_rows, -1)
        return cls(
            lists=Lists.none(num_rows),
            texts=NearEdges.none(),
            text_of=nothing,
            crowded=np.empty(0, np.bool_),
            vectors=NearVectors.none(num_rows),
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Alive:
    """A rows that the equality levels leave, best first."""

    rows: Indices
    """[A] numbers, ascending by rank."""
    lists: Indices
    """[A] list of images, -1 for none."""
    texts: Indices
    """[A] text, as the near matcher numbers it; -1 for none."""
    equal: Indices
    """[A] number of the compared text, of whatever length; -1 for none."""
    roles: npt.NDArray[np.uint64]


def alive_rows(rows: Indices, signed: Signed, near: Near) -> Alive:
    """What is compared of rows that equality left.

    Args:
        rows: numbers of the rows, ascending by rank.
    """
    texts = signed.texts[rows]
    equal = np.where(texts == 0, -1, np.unique(texts, return_inverse=True)[1])
    return Alive(
        rows=rows,
        lists=near.lists.of_row[rows],
        texts=near.text_of[rows],
        equal=equal.astype(np.int64),
        roles=signed.roles[rows],
    )


def same_text(alive: Alive, edges: NearEdges, page: npt.NDArray[np.bool_], *, level: int) -> RowEdges:
    """Rows of two near lists with the same text, or with none; with a page, none is no text that agrees."""
    both = (alive.lists.astype(np.int64) << 32) | (alive.equal + 1)
    there = np.where(alive.lists >= 0, both, -1)
    order = np.argsort(there, kind="stable")
    keys = there[order]
    edge, row = _rows_of(edges.one, alive.lists)
    wanted = (edges.two[edge] << 32) | (alive.equal[row] + 1)
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = (keys[at] == wanted) if len(keys) else np.zeros(0, np.bool_)
    with_page = page[edges.one[edge]] | page[edges.two[edge]]
    found &= ~(with_page & (alive.equal[row] < 0))
    other = order[at[found]] if len(keys) else row[:0]
    one = alive.rows[row[found]]
    free = _speak_alike(alive, row[found], other)
    return row_edges(
        one, alive.rows[other], level=level, edges=edges, of=edge[found], removes_one=free, removes_two=free
    )


def other_text(alive: Alive, lists: Lists) -> RowEdges:
    """Rows of one list with a page or of two near ones, with different texts or without any: still to be compared.

    Beside a picture a page is compared only where neither has a text: that two pages hold the same figures is known of
    lists that are near, of a page and a picture it is not.
    """
    edges, pages = lists.edges, np.flatnonzero(lists.page)
    chosen = edges.take(np.flatnonzero(lists.page[edges.one] | lists.page[edges.two]))
    with_itself = NearEdges(
        one=np.concatenate([chosen.one, pages]),
        two=np.concatenate([chosen.two, pages]),
        score=np.concatenate([chosen.score, np.ones(len(pages))]),
        detail=np.concatenate([chosen.detail, np.zeros((len(pages), edges.detail.shape[1]), np.int32)]),
    )
    one, two, edge = crossed(with_itself.one, with_itself.two, alive.lists)
    silent = (alive.equal[one] < 0) & (alive.equal[two] < 0)
    pages_both = lists.page[with_itself.one[edge]] & lists.page[with_itself.two[edge]]
    differ = silent | (pages_both & (alive.equal[one] != alive.equal[two]))
    differ &= one != two
    one, two = one[differ], two[differ]
    free = _speak_alike(alive, one, two)
    return row_edges(
        alive.rows[one],
        alive.rows[two],
        level=PERCEPTUAL,
        edges=with_itself,
        of=edge[differ],
        removes_one=free,
        removes_two=free,
    )


def tied_pictures(alive: Alive, lists: Lists) -> RowEdges:
    """The best row of a list with the best one of each near list, whatever their texts; pages tie nothing."""
    edges = lists.edges
    chosen = np.flatnonzero(~(lists.page[edges.one] | lists.page[edges.two]))
    best = _first_of(alive.lists, len(lists))
    one, two = best[edges.one[chosen]], best[edges.two[chosen]]
    there = (one >= 0) & (two >= 0)
    return row_edges(
        alive.rows[one[there]],
        alive.rows[two[there]],
        level=PERCEPTUAL,
        edges=edges,
        of=chosen[there],
        removes_one=False,
        removes_two=False,
    )


def near_text_rows(alive: Alive, near: Near, *, alike: float) -> RowEdges:
    """Rows of two near texts: without images any two; with images those of one list or of near ones, pages excepted.

    The best row with images of a text stands for the others: it never goes, and any keeper will do.

    Args:
        alike: score from which two lists are near.
    """
    edges = near.texts
    plain = alive.lists < 0
    best = _first_of(np.where(plain, -1, alive.texts), int(near.text_of.max(initial=-1)) + 1)
    bare = np.where(plain, alive.texts, -1)
    # Without images beside without images.
    one, two, edge = crossed(edges.one, edges.two, bare)
    free = _speak_alike(alive, one, two)
    parts = [
        row_edges(
            alive.rows[one], alive.rows[two], level=TEXT, edges=edges, of=edge, removes_one=free, removes_two=free
        )
    ]
    # Without images beside the best with images.
    for here, there in ((edges.one, edges.two), (edges.two, edges.one)):
        edge, row = _rows_of(here, bare)
        other = best[there[edge]] if len(best) else row
        known = other >= 0
        row, other, edge = row[known], other[known], edge[known]
        free = _speak_alike(alive, row, other)
        parts.append(
            row_edges(
                alive.rows[row],
                alive.rows[other],
                level=TEXT,
                edges=edges,
                of=edge,
                removes_one=free,
                removes_two=False,
            )
        )
    # With images beside with images: the lists must be near as well.
    one, two, edge = crossed(edges.one, edges.two, np.where(plain, -1, alive.texts))
    close = _lists_near(alive.lists[one], alive.lists[two], near.lists, alike) & _speak_alike(alive, one, two)
    parts.append(
        row_edges(
            alive.rows[one], alive.rows[two], level=TEXT, edges=edges, of=edge, removes_one=close, removes_two=close
        )
    )
    return joined(parts)


def near_vectors(alive: Alive, near: Near) -> RowEdges:
    """Rows whose own vectors are near."""
    edges = near.vectors.examples
    one, two, edge = crossed(edges.one, edges.two, near.vectors.example_of[alive.rows])
    return row_edges(alive.rows[one], alive.rows[two], level=SEMANTIC, edges=edges, of=edge)


def _speak_alike(alive: Alive, one: Indices, two: Indices) -> npt.NDArray[np.bool_]:
    """Whether the same speak in the same order in two rows, and no part of their texts has a name."""
    same: npt.NDArray[np.bool_] = (alive.roles[one] == alive.roles[two]) & (alive.roles[one] != NAMED)
    return same


def _lists_near(one: Indices, two: Indices, lists: Lists, alike: float) -> npt.NDArray[np.bool_]:
    """Whether lists are the same or near, and none has a page."""
    edges = lists.edges.above(alike)
    known = (edges.one << 32) | edges.two
    wanted = (np.minimum(one, two) << 32) | np.maximum(one, two)
    near = (one == two) | np.isin(wanted, known)
    quiet: npt.NDArray[np.bool_] = near & ~(lists.page[one] | lists.page[two])
    return quiet


def _first_of(values: Indices, size: int) -> Indices:
    """[size] the first place of each value, -1 where it is not there."""
    found = np.full(size, -1)
    known = np.flatnonzero(values >= 0)[::-1]
    found[values[known]] = known
    return found


def _sorted(values: Indices) -> tuple[Indices, Indices]:
    """Places by value, the first of a value first, and the values in that order; -1 is left out."""
    order = np.argsort(values, kind="stable")
    order = order[np.searchsorted(values[order], 0) :]
    return order, values[order]


def _rows_of(wanted: Indices, values: Indices) -> tuple[Indices, Indices]:
    """(place in `wanted`, place in `values`) of each value that is wanted."""
    order, keys = _sorted(values)
    begin, end = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    edge = np.repeat(np.arange(len(wanted)), end - begin)
    return edge, order[_within(begin, end - begin)]


def crossed(one: Indices, two: Indices, values: Indices) -> tuple[Indices, Indices, Indices]:
    """Each pair of places with the values one[k] and two[k], of many the first FULL; and k."""
    order, keys = _sorted(values)
    starts = group_starts(keys)
    rank = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    order, keys = order[rank < FULL], keys[rank < FULL]
    begins = [np.searchsorted(keys, side) for side in (one, two)]
    counts = [np.searchsorted(keys, side, side="right") - begin for side, begin in zip((one, two), begins, strict=True)]
    num = counts[0] * counts[1]
    edge = np.repeat(np.arange(len(one)), num)
    within = _within(np.zeros(len(one), np.int64), num)
    left = begins[0][edge] + within // np.maximum(counts[1][edge], 1)
    right = begins[1][edge] + within % np.maximum(counts[1][edge], 1)
    return order[left], order[right], edge


def _within(begin: Indices, length: Indices) -> Indices:
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    places: Indices = np.arange(total) + np.repeat(begin - (ends - length), length)
    return places
