"""The order in which a split streams: groups whole, sources interleaved evenly; and its cut into units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import group_starts
from shardkit.prepare.split.groups import Groups
from shardkit.sequence.plan.mixer import mix64_array

UNIT_ROWS = 131_072
"""Small rows would make one unit of a million, and one worker write all of it."""


def stream_order(groups: Groups, rows: Indices, *, salt: str) -> Indices:
    """`rows` of one split in streaming order.

    The components of each source stand in hash order, and each is placed at the share of its source's rows that comes
    before its middle; merged by that share, every prefix holds the sources in their proportions.

        source a  x x x x        shares .125 .375 .625 .875
        source b    y   y                   .25      .75        ->  x y x x y x
    """
    if len(rows) == 0:
        return rows
    component = groups.of_own[rows]
    by_component = rows[np.lexsort((rows, component))]
    starts = group_starts(groups.of_own[by_component])
    sizes = np.diff(np.append(starts, len(rows)))
    numbers = groups.of_own[by_component[starts]]
    sources = _main_sources(groups, by_component, starts)
    draws = mix64_array(mix64(salt, "order"), groups.rows.keys[groups.first[numbers]])
    order = np.lexsort((draws, sources))
    ends = np.cumsum(sizes[order])
    of_source = group_starts(sources[order])
    before = np.repeat(np.append(0, ends)[of_source], np.diff(np.append(of_source, len(order))))
    totals = np.repeat(np.add.reduceat(sizes[order], of_source), np.diff(np.append(of_source, len(order))))
    middle = (ends - before - sizes[order] / 2) / totals
    final = order[np.lexsort((draws[order], middle))]
    begin = np.repeat(starts[final], sizes[final])
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes[final]) - sizes[final], sizes[final])
    streamed: Indices = by_component[begin + within]
    return streamed


def _main_sources(groups: Groups, by_component: Indices, starts: Indices) -> Indices:
    """The source that most rows of each component have; of equals the first by name."""
    sources = groups.rows.sources[by_component].astype(np.int64)
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(by_component))))
    pairs, counts = np.unique(np.stack([number, sources]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], -counts, pairs[0]))
    main: Indices = pairs[1][order][group_starts(pairs[0][order])]
    return main


def cut_units(sizes: npt.NDArray[np.int64], components: Indices, *, unit_size: int) -> list[slice]:
    """Cut an order into units of at most `unit_size` payload bytes, if no single row is larger, and UNIT_ROWS rows.

    A unit ends between components; one that is larger than a unit begins a new one and is cut between its rows.

    Args:
        sizes: [n] payload bytes of each row, in order.
        components: [n] component of each row.
    """
    ends = np.cumsum(sizes)
    borders, begin = [0], 0
    full = _full(ends, begin, unit_size)
    for start, stop in pairwise([*group_starts(components).tolist(), len(sizes)]):
        if stop > full and start > begin:
            borders.append(start)
            begin, full = start, _full(ends, start, unit_size)
        while begin < stop and stop > full:
            begin = max(full, begin + 1)
            borders.append(begin)
            full = _full(ends, begin, unit_size)
    borders.append(len(sizes))
    return [slice(begin, end) for begin, end in pairwise(borders) if end > begin]


def _full(ends: npt.NDArray[np.int64], begin: int, unit_size: int) -> int:
    """Where a unit that begins at `begin` is full."""
    before = int(ends[begin - 1]) if begin else 0
    return min(int(np.searchsorted(ends, before + unit_size, side="right")), begin + UNIT_ROWS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """How far the shards of a split, read from the first on, stray from its sources as a whole."""

    shards: int
    worst: float
    """The largest difference between a source's share of the rows of some first shards and of all rows."""
    source: str | None
    """Of which source."""
    after: int
    """After how many shards."""


def prefix_of(groups: Groups, order: Indices, pieces: Sequence[slice], *, shard_size: int) -> Prefix:
    """The worst prefix of a split.

    Args:
        order: rows of the split as they stream.
        pieces: the units of the order; shards do not cross them.
        shard_size: payload bytes at which a shard closes.
    """
    rows = groups.rows
    ends = np.array(shard_ends(rows.sizes[order], pieces, shard_size=shard_size), np.int64)
    if len(ends) < 2:
        return Prefix(shards=len(ends), worst=0.0, source=None, after=len(ends))
    worst = Prefix(shards=len(ends), worst=-1.0, source=None, after=0)
    sources = rows.sources[order]
    for number in np.unique(sources).tolist():
        counts = np.cumsum(sources == number)[ends - 1]
        apart = np.abs(counts / ends - counts[-1] / ends[-1])
        at = int(apart.argmax())
        if apart[at] > worst.worst:
            worst = Prefix(shards=len(ends), worst=float(apart[at]), source=rows.source_names[number], after=at + 1)
    return worst


def shard_ends(sizes: npt.NDArray[np.int64], pieces: Sequence[slice], *, shard_size: int) -> list[int]:
    """Where each shard ends: it closes with the row that brings it to `shard_size`, and with its unit."""
    ends = np.cumsum(sizes)
    found = []
    for piece in pieces:
        begin = piece.start
        while begin < piece.stop:
            before = int(ends[begin - 1]) if begin else 0
            begin = min(int(np.searchsorted(ends, before + shard_size)) + 1, piece.stop)
            found.append(begin)
    return found
