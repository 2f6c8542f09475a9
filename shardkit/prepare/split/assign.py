"""A split for each component, and a verdict for each row.

    placed before (--like)    stays; a component placed in several splits takes the one that is held out most strictly
    by time                   the split of its latest row
    200 components and more   by hash of the component's stable key
    fewer, or --exact         greedily in hash order, to the split that lacks most
A component larger than a split's whole asked share goes to the largest split instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from shardkit.digest import mix64
from shardkit.errors import ConfigError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.split.groups import Groups
from shardkit.prepare.split.ledger import Ledger
from shardkit.prepare.split.reasons import BAD_TIME, BRIDGE, CODES, CONFLICT, MISSING_TIME
from shardkit.prepare.split.times import BAD, MISSING, UNKNOWN, Cutoffs, places
from shardkit.sequence.plan.mixer import mix64_array

GREEDY_BELOW = 200
HASH, GREEDY, TIME = "hash", "greedy", "time"
_WORD = 1 << 64

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Division:
    """What is asked for."""

    names: tuple[str, ...]
    """Of the splits."""
    shares: Mapping[str, Fraction]
    """Split -> share asked, adding up to 1; empty with cutoffs."""
    cutoffs: Cutoffs = ()
    salt: str = ""
    """Another one gives another split of the same data."""
    exact: bool = False


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Assignment:
    method: str
    """hash | greedy | time: how components were placed that no older split had."""
    of_component: Indices
    """[C] place of the split; -1 where a component holds no row that is split, or none with a time."""
    left: npt.NDArray[np.int8]
    """[num_own] place in CODES: why a row is left out; 0 where it stays."""
    placed: Indices
    """[num_own] place of the split in which the row's key was placed before; -1 for new keys."""
    oversized: Indices
    """Components that were too large for the split they fell to."""

    @property
    def excluded(self) -> Indices:
        """Rows that are left out."""
        return np.flatnonzero(self.left)


def assign(groups: Groups, ledger: Ledger, division: Division) -> Assignment:
    """Place every component."""
    names = division.names
    placed = ledger.placed(groups.rows.keys)
    of_component = _strictest(groups, placed, division)
    own = placed[: groups.rows.num_own]
    left = _left_out(groups, placed, of_component)
    open_ = np.flatnonzero((of_component < 0) & (groups.size > 0))
    oversized = np.empty(0, np.int64)
    if division.cutoffs:
        method = TIME
        latest = _latest(groups, left)
        of_component[open_] = np.where(latest[open_] == MISSING, -1, places(latest[open_], division.cutoffs))
    else:
        sizes = np.bincount(groups.of_own[left == 0], minlength=len(of_component))
        targets = [share * len(own) for share in division.shares.values()]
        stable = groups.rows.keys[groups.first[open_]]
        draws = mix64_array(mix64(division.salt, "split"), stable)
        if division.exact or groups.num < GREEDY_BELOW:
            method = GREEDY
            order = np.lexsort((stable, draws))
            filled = [int(sizes[of_component == place].sum()) for place in range(len(names))]
            chosen, large = fill(sizes[open_][order].tolist(), filled, targets)
            of_component[open_[order]] = chosen
            oversized = open_[order][large]
        else:
            method = HASH
            by_hash = np.searchsorted(_borders(division.shares), draws, side="right")
            limits = np.array([int(target) for target in targets], np.int64)
            too_large = sizes[open_] > limits[by_hash]
            of_component[open_] = np.where(too_large, _largest(targets), by_hash)
            oversized = open_[too_large]
    return Assignment(method=method, of_component=of_component, left=left, placed=own, oversized=np.sort(oversized))


def _left_out(groups: Groups, placed: Indices, of_component: Indices) -> npt.NDArray[np.int8]:
    """[num_own] place in CODES.

    A row that was placed elsewhere than its component goes now is left out. Where such a row is not here but in the
    older split alone, it cannot be: then what is new and ties the two is left out instead.
    """
    rows = groups.rows
    own = placed[: rows.num_own]
    taken = of_component[groups.of_own]
    left = np.zeros(rows.num_own, np.int8)
    if len(rows.times):
        times = rows.times[: rows.num_own]
        left[times == MISSING] = CODES.index(MISSING_TIME)
        left[times == BAD] = CODES.index(BAD_TIME)
    elsewhere = np.arange(rows.num_here, rows.num_placed)
    elsewhere = elsewhere[~np.isin(rows.ids[elsewhere], rows.ids[: rows.num_own])]
    there = of_component[groups.of_row[elsewhere]]
    torn = groups.of_row[elsewhere[(placed[elsewhere] >= 0) & (there >= 0) & (placed[elsewhere] != there)]]
    left[(own < 0) & np.isin(groups.of_own, torn)] = CODES.index(BRIDGE)
    left[(own >= 0) & (own != taken)] = CODES.index(CONFLICT)
    return left


def _latest(groups: Groups, left: npt.NDArray[np.int8]) -> Indices:
    """[C] the latest time of the rows of a component that stay; MISSING where none has one."""
    latest = np.full(len(groups.declared), MISSING)
    times = groups.rows.times[: groups.rows.num_own]
    known = (left == 0) & ~np.isin(times, UNKNOWN)
    np.maximum.at(latest, groups.of_own[known], times[known])
    return latest


def straddling(groups: Groups, assignment: Assignment, cutoffs: Cutoffs) -> Flags:
    """[num_own] rows that stay and are older than the split that their component went to begins."""
    if not cutoffs:
        return np.zeros(groups.rows.num_own, np.bool_)
    by_time = places(groups.rows.times[: groups.rows.num_own], cutoffs)
    older: Flags = (assignment.left == 0) & (by_time < assignment.of_component[groups.of_own])
    return older


def strictness(names: tuple[str, ...], shares: Mapping[str, Fraction]) -> list[int]:
    """Places of the splits, the most strictly held out first: test, val, then others from the smallest share up, or
    from the latest on."""
    first = {"test": 0, "val": 1}
    return sorted(
        range(len(names)),
        key=lambda place: (first.get(names[place], 2), shares.get(names[place], -place), names[place]),
    )


def _strictest(groups: Groups, placed: Indices, division: Division) -> Indices:
    """[C] the strictest split in which a component was placed before; -1 where it is new."""
    of_component = np.full(len(groups.declared), -1)
    for place in reversed(strictness(division.names, division.shares)):
        of_component[groups.of_row[placed == place]] = place
    of_component[groups.size == 0] = -1
    return of_component


def _borders(shares: Mapping[str, Fraction]) -> Keys:
    """Where the range of each split ends among the 64-bit numbers, but for the last."""
    ends, total = [], Fraction(0)
    for share in list(shares.values())[:-1]:
        total += share
        ends.append(min(int(total * _WORD), _WORD - 1))
    return np.array(ends, np.uint64)


def _largest(targets: list[Fraction]) -> int:
    return targets.index(max(targets))


def fill(sizes: list[int], filled: list[int], targets: list[Fraction]) -> tuple[list[int], list[int]]:
    """Give each component to the split that lacks most of its share and comes nearer to it, else to the largest.

    Returns:
        the place of each component's split, and the indices of those too large for every other split.
    """
    largest = _largest(targets)
    # Shares as written are fractions; in whole numbers the same comparisons cost a tenth.
    unit = math.lcm(*(target.denominator for target in targets))
    wanted = [int(target * unit) for target in targets]
    filled = [count * unit for count in filled]
    # Equally empty splits are served from the smallest share up, so that small ones do not go without.
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    most_elsewhere = max((wanted[place] for place in order if place != largest), default=0)
    chosen, oversized = [], []
    for index, count in enumerate(sizes):
        size = count * unit
        if len(wanted) > 1 and size > most_elsewhere:
            oversized.append(index)
        found = largest
        best = None
        for place in order:
            # None may be larger than the whole share, and each must bring the split nearer to it.
            if size > wanted[place] or 2 * (wanted[place] - filled[place]) <= size:
                continue
            if best is None or filled[place] * best[1] < best[0] * wanted[place]:
                best, found = (filled[place], wanted[place]), place
        filled[found] += size
        chosen.append(found)
    return chosen, oversized


def check_not_empty(rows_of_split: Mapping[str, int], shares: Mapping[str, Fraction], groups: Groups) -> None:
    """Refuse a split without a row.

    Raises:
        ConfigError: where a split got nothing.
    """
    empty = [name for name, rows in rows_of_split.items() if rows == 0]
    if not empty or groups.rows.num_own == 0:
        return
    sizes = groups.size[groups.size > 0]
    asked = ", ".join(
        f"{name} asks for {float(shares[name] * groups.rows.num_own):g} examples"
        if shares
        else f"nothing is as late as {name}"
        for name in empty
    )
    raise ConfigError(
        f"{', '.join(empty)} would be empty: {asked}, and of the {len(sizes)} groups the smallest has {sizes.min()}",
        hint="use --allow-empty, give it a larger share in --ratios, or group by something finer with --group-by",
    )
