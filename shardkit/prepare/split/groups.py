"""Groups of rows: joined by declared keys, shared images and texts, and parents; and what is too frequent to join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import SourceError
from shardkit.prepare.components import Indices, components, in_many_groups, same_value
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import facts_of
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.report import excerpt
from shardkit.prepare.split.rows import Rows
from shardkit.prepare.split.ties import KINDS, tie_values

GUARD_ROWS = 1000
"""A component with fewer examples is never called a giant."""
_NAMED_TIES = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    rows: Rows
    of_row: Indices
    """[N] the component of each row."""
    frequent: Keys
    """Values, ascending, that stand in too many declared groups: they tie nothing."""

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
        pairs = np.unique(np.stack([self.of_row[known], self.rows.declared[known]]), axis=1)
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
    frequent = in_many_groups(rows.values, rows.declared[rows.value_rows], frequent_limit)
    frequent = np.union1d(frequent, rows.permitted)
    ties = ~np.isin(rows.values, frequent)
    nodes = np.arange(len(rows))
    edges = [
        same_value(rows.values[ties], rows.value_rows[ties]),
        same_value(rows.keys, nodes),
        same_value((rows.joined + 1).astype(np.uint64), nodes),
        _near(rows, frequent),
    ]
    derived = np.flatnonzero(rows.parents)
    if len(derived):
        # A parent that is not here still ties its children to one another.
        parents = np.flatnonzero(np.isin(rows.ids, rows.parents[derived]))
        edges.append(
            same_value(np.concatenate([rows.ids[parents], rows.parents[derived]]), np.concatenate([parents, derived]))
        )
    return Groups(rows=rows, of_row=components(len(rows), edges), frequent=frequent)


def _near(rows: Rows, frequent: Keys) -> tuple[Indices, Indices]:
    """Near rows; pictures that look alike tie nothing where one of them is boilerplate."""
    common = np.zeros(len(rows), np.bool_)
    common[rows.value_rows[np.isin(rows.values, frequent)]] = True
    one, two = rows.near
    ties = ~(rows.near_pictures & (common[one] | common[two]))
    return one[ties], two[ties]


def guard(groups: Groups, *, share: float) -> None:
    """Stop where declared groups run together into a giant.

    Raises:
        SourceError: naming its size and the ties that join most groups.
    """
    total = groups.rows.num_own
    giants = np.flatnonzero((groups.declared >= 2) & (groups.size > GUARD_ROWS) & (groups.size > share * total))
    if len(giants) == 0:
        return
    giant = giants[np.argmax(groups.size[giants])]
    size = int(groups.size[giant])
    ties = "; ".join(_strongest(groups, int(giant)))
    raise SourceError(
        f"{size} of {total} examples ({size / total:.1%}, the limit is {share:.1%}) and {groups.declared[giant]} declared "
        f"groups hang together; they are tied by {ties}",
        hint="lower --frequent-asset-limit so that such ties count as boilerplate, or raise --max-group-share",
    )


def _strongest(groups: Groups, component: int) -> list[str]:
    """The ties inside a component that join the most declared groups, in words."""
    rows = groups.rows
    inside = (groups.of_row[rows.value_rows] == component) & ~np.isin(rows.values, groups.frequent)
    values, of_value = rows.values[inside], rows.value_rows[inside]
    declared = rows.declared[of_value]
    pairs = np.unique(np.stack([values, declared.astype(np.uint64)])[:, declared >= 0], axis=1)
    distinct, counts = np.unique(pairs[0], return_counts=True)
    distinct, counts = distinct[counts > 1], counts[counts > 1]
    top = distinct[np.lexsort((distinct, -counts))][:_NAMED_TIES]
    known = describe(rows, {int(value): int(of_value[np.argmax(values == value)]) for value in top})
    joined = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    return [f"{kind} {short} in {joined[value]} groups" for value, (kind, _, short) in known.items()]


def describe(rows: Rows, places: dict[int, int]) -> dict[int, tuple[str, str, str]]:
    """64 bits of a tie -> (kind, full value, the value in short), read from a row that has it.

    Args:
        places: 64 bits -> number of a row.
    """
    wanted: dict[int, list[int]] = {}
    for value, row in places.items():
        wanted.setdefault(row, []).append(value)
    facts = dict(_facts_at(rows, np.array(sorted(wanted), np.int64)))
    found = {}
    for row, values in wanted.items():
        of_row = {bits: (level, value) for level, value, bits in tie_values(facts[row])}
        for value in values:
            level, text = of_row[value]
            found[value] = (KINDS[level], text, excerpt(text) if level == "text" else text[:16])
    return {value: found[value] for value in places}


def _facts_at(rows: Rows, positions: npt.NDArray[np.int64]) -> list[tuple[int, Facts]]:
    """Facts of some rows, with their numbers."""
    found = []
    for piece in rows.slices:
        inside = np.flatnonzero(np.isin(piece.positions, positions))
        if len(inside):
            part = piece.only(inside)
            found += list(zip(part.positions.tolist(), facts_of(part), strict=True))
    return found
