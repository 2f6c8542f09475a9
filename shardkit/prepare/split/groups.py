"""Groups of rows: joined by declared keys, equal and near values, and parents; and what is too frequent to join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.components import Edges, Indices, components, in_many_groups, same_value
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.split.rows import Rows
from shardkit.prepare.split.ties import NOBODY


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    rows: Rows
    of_row: Indices
    """[N] the component of each row."""
    frequent: Keys
    """Values, ascending, that stand in too many declared groups: that they are equal ties nothing."""
    common: Keys
    """Values, ascending, of which two may be near and are not tied by it: copies of something too frequent."""

    @cached_property
    def num(self) -> int:
        """Components that hold a row that is split."""
        return len(np.unique(self.of_own))

    @property
    def of_own(self) -> Indices:
        return self.of_row[: self.rows.num_own]

    @cached_property
    def size(self) -> Indices:
        """Rows that are split, by component."""
        return np.bincount(self.of_own, minlength=len(self.declared))

    @cached_property
    def declared(self) -> Indices:
        """Number of declared groups, by component."""
        known = self.rows.declared >= 0
        pairs = _distinct_pairs(self.of_row[known], self.rows.declared[known])
        return np.bincount(pairs[0], minlength=int(self.of_row.max(initial=-1)) + 1)

    @cached_property
    def first(self) -> Indices:
        """The row that names its component: of those that are split, the one whose key has the smallest 64 bits.
        -1 where a component has none."""
        order = np.lexsort((self.rows.keys[: self.rows.num_own], self.of_own))
        found = np.full(len(self.declared), -1)
        found[self.of_own[order[::-1]]] = order[::-1]
        return found

    def names(self) -> pa.Array:
        """The name of each component: the key of its first row; null where it has no row that is split."""
        empty = self.first < 0
        codes = np.where(empty, -1, self.rows.declared[self.first]) if len(self.rows) else self.first
        declared = pa.array(self.rows.names, pa.string()).take(pa.array(codes, mask=codes < 0))
        ids = self.rows.examples["example_id"].combine_chunks().take(pa.array(self.first, mask=empty))
        return pc.coalesce(declared, ids)


def join(rows: Rows, *, frequent_limit: int) -> Groups:
    """Find the components."""
    declared = rows.declared[rows.value_rows]
    frequent = np.union1d(in_many_groups(rows.values, declared, frequent_limit), rows.permitted[0])
    common = np.union1d(near_to_many(rows, frequent, frequent_limit), rows.permitted[1])
    ties = ~np.isin(rows.values, frequent)
    nodes = np.arange(len(rows))
    edges = [
        same_value(rows.values[ties], rows.value_rows[ties]),
        same_value(rows.keys, nodes),
        same_value((rows.joined + 1).astype(np.uint64), nodes),
        _near(rows, common),
        _lineage(rows),
    ]
    return Groups(rows=rows, of_row=components(len(rows), edges), frequent=frequent, common=common)


def near_ties(rows: Rows, common: Keys) -> tuple[Keys, Keys]:
    """The pairs of near values that tie: not both of them are copies of something too frequent."""
    one, two = rows.near
    ties = ~(np.isin(one, common) & np.isin(two, common))
    return one[ties], two[ties]


def _near(rows: Rows, common: Keys) -> Edges:
    one, two = near_ties(rows, common)
    order = np.argsort(rows.values, kind="stable")
    known = rows.values[order]
    at = [order[np.searchsorted(known, side)] if len(side) else np.empty(0, np.int64) for side in (one, two)]
    return rows.value_rows[at[0]], rows.value_rows[at[1]]


def _lineage(rows: Rows) -> Edges:
    """Rows with what they were made from; a parent that is not here still ties its children to one another."""
    parents = np.flatnonzero(np.isin(rows.ids, rows.parents))
    # What two rows do not say is nothing that they share.
    named = np.where(rows.parents == NOBODY, np.uint64(0), rows.parents)
    return same_value(np.concatenate([rows.ids[parents], named]), np.concatenate([parents, rows.children]))


def near_to_many(rows: Rows, frequent: Keys, limit: int) -> Keys:
    """Values that, with all that are near to them, stand in more than `limit` declared groups; and what is near to them.

    limit 2      a: g1 g2     b: g3     c: g4         a - b - c
    b sees g1 g2 g3 g4: it is too frequent, and a and c are copies of it. All three are listed.
    """
    one, two = rows.near
    declared = rows.declared[rows.value_rows]
    values, groups = _distinct_pairs(rows.values[declared >= 0], declared[declared >= 0])
    here, there = np.concatenate([one, two]), np.concatenate([two, one])
    begin, end = np.searchsorted(values, there), np.searchsorted(values, there, side="right")
    # One group more than the limit settles it, however many there are.
    counts = np.minimum(end - begin, limit + 1)
    ends = np.cumsum(counts)
    places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begin - (ends - counts), counts)
    seen_by = np.concatenate([np.repeat(here, counts), values])
    seen = np.concatenate([groups[places], groups])
    many = np.union1d(in_many_groups(seen_by, seen, limit), frequent)
    return np.union1d(many[np.isin(many, here)], there[np.isin(here, many)])


def _distinct_pairs(one: np.typing.NDArray[np.generic], two: Indices) -> tuple[np.typing.NDArray[np.generic], Indices]:
    """Pairs that differ, ascending by (one, two)."""
    order = np.lexsort((two, one))
    one, two = one[order], two[order]
    fresh = np.ones(len(one), np.bool_)
    fresh[1:] = (one[1:] != one[:-1]) | (two[1:] != two[:-1])
    return one[fresh], two[fresh]
