"""The guard against giants, and ties in words: what joins declared groups, read from rows that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shardkit.errors import SourceError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.dedup.inputs import facts_of
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.split.groups import Groups, near_ties
from shardkit.prepare.split.rows import Rows
from shardkit.prepare.split.ties import KINDS, LEVELS, NOBODY, tie_bits, tie_values
from shardkit.text.excerpt import excerpt

GUARD_ROWS = 1000
"""A component with fewer examples is never called a giant."""
_NAMED_TIES = 5

Described = tuple[str, str, str]
"""Level, full value, the value in short."""


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
    """The ties inside a component that join the most declared groups, in words: equal values, then near ones, then
    parents and what an earlier split joined."""
    rows = groups.rows
    named = [*_equal(groups, component), *_near(groups, component)]
    if len(named) < _NAMED_TIES:
        known = rows.parents != NOBODY
        named += _by_row(groups, component, rows.children[known], rows.parents[known], "a parent")
        earlier = np.flatnonzero(rows.joined >= 0)
        marks = rows.joined[earlier].astype(np.uint64)
        named += _by_row(groups, component, earlier, marks, "a component of the earlier split")
    return named[:_NAMED_TIES]


def _equal(groups: Groups, component: int) -> list[str]:
    rows = groups.rows
    inside = (groups.of_row[rows.value_rows] == component) & ~np.isin(rows.values, groups.frequent)
    distinct, counts = _joining(rows.values[inside], rows.declared[rows.value_rows[inside]])
    top = np.lexsort((distinct, -counts))[:_NAMED_TIES]
    known = describe(rows, _holders(rows, distinct[top]))
    joined = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    return [f"{KINDS[level]} {short} in {joined[value]} groups" for value, (level, _, short) in known.items()]


def _near(groups: Groups, component: int) -> list[str]:
    """Near values, those that tie most other groups first."""
    rows = groups.rows
    one, two = near_ties(rows, groups.common)
    holders = _holders(rows, np.union1d(one, two))
    first = np.array([holders[value] for value in one.tolist()], np.int64)
    inside = groups.of_row[first] == component
    here, there = np.concatenate([one[inside], two[inside]]), np.concatenate([two[inside], one[inside]])
    seen = rows.declared[np.array([holders[value] for value in there.tolist()], np.int64)]
    own = rows.declared[np.array([holders[value] for value in here.tolist()], np.int64)]
    apart = seen != own
    distinct, counts = np.unique(here[apart & (seen >= 0)], return_counts=True)
    top = np.lexsort((distinct, -counts))[:_NAMED_TIES]
    known = describe(rows, {value: holders[value] for value in distinct[top].tolist()})
    joined = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    return [
        f"{KINDS.get(level, level)} {short} near to {joined[value]} of other groups"
        for value, (level, _, short) in known.items()
    ]


def _by_row(groups: Groups, component: int, members: Indices, marks: Keys, what: str) -> list[str]:
    rows = groups.rows
    inside = groups.of_row[members] == component
    distinct, counts = _joining(marks[inside], rows.declared[members[inside]])
    return [f"{what} in {counts.max()} groups ({len(distinct)} such)"] if len(distinct) else []


def _joining(values: Keys, declared: Indices) -> tuple[Keys, Indices]:
    """Values that stand in two declared groups or more, and in how many."""
    pairs = np.unique(np.stack([values, declared.astype(np.uint64)])[:, declared >= 0], axis=1)
    distinct, counts = np.unique(pairs[0], return_counts=True)
    return distinct[counts > 1], counts[counts > 1]


def _holders(rows: Rows, values: Keys) -> dict[int, int]:
    """64 bits of a value -> the first row that has it."""
    order = np.argsort(rows.values, kind="stable")
    at = order[np.searchsorted(rows.values[order], values)] if len(values) else np.empty(0, np.int64)
    return dict(zip(values.tolist(), rows.value_rows[at].tolist(), strict=True))


# ---------------------------------------------------------------------- in words
def describe(rows: Rows, places: Mapping[int, int]) -> dict[int, Described]:
    """64 bits of a tie -> what it is, read from a row that has it.

    Args:
        places: 64 bits -> number of a row.
    """
    wanted: dict[int, list[int]] = {}
    for value, row in places.items():
        wanted.setdefault(row, []).append(value)
    facts = dict(_facts_at(rows, sorted(wanted)))
    found = {}
    for row, values in wanted.items():
        of_row = {bits: (level, value) for level, value, bits in tie_values(facts[row])}
        example = facts[row].example_id
        of_row[tie_bits(LEVELS[-1], example)] = (LEVELS[-1], example)
        for value in values:
            level, text = of_row[value]
            found[value] = (level, text, excerpt(text) if level == "text" else text[:16])
    return {value: found[value] for value in places}


def _facts_at(rows: Rows, positions: Sequence[int]) -> list[tuple[int, Facts]]:
    """Facts of some rows, with their numbers."""
    found = []
    wanted = np.array(positions, np.int64)
    for piece in rows.slices:
        inside = np.flatnonzero(np.isin(piece.positions, wanted))
        if len(inside):
            part = piece.only(inside)
            found += list(zip(part.positions.tolist(), facts_of(part), strict=True))
    return found
