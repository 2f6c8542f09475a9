"""A split for each component, and a verdict for each row.

    placed before (--like)    stays; a component placed in several splits takes the one that is held out most strictly
    200 components and more   by hash of the component's stable key
    fewer                     greedily in hash order, to the split that lacks most
A component larger than a split's whole asked share goes to the largest split instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shardkit.digest import mix64
from shardkit.errors import ConfigError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.split.groups import Groups
from shardkit.prepare.split.ledger import Ledger
from shardkit.sequence.plan.order import mix64_array

GREEDY_BELOW = 200
HASH, GREEDY = "hash", "greedy"
_WORD = 1 << 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Assignment:
    method: str
    """hash | greedy: how components were placed that no older split had."""
    of_component: Indices
    """[C] place of the split; -1 where a component holds no row that is split."""
    excluded: Indices
    """Rows that are left out: they were placed in a laxer split than the one their component takes now."""
    placed: Indices
    """[num_own] place of the split in which the row's key was placed before; -1 for new keys."""
    oversized: Indices
    """Components that were too large for the split they fell to."""


def assign(groups: Groups, ledger: Ledger, shares: Mapping[str, Fraction], *, salt: str) -> Assignment:
    """Place every component.

    Args:
        shares: split -> share asked, adding up to 1.
        salt: another one gives another split of the same data.
    """
    names = tuple(shares)
    placed = ledger.placed(groups.rows.keys)
    of_component = _strictest(groups, placed, names, shares)
    own = placed[: groups.rows.num_own]
    taken = of_component[groups.of_own]
    excluded = np.flatnonzero((own >= 0) & (own != taken))
    sizes = np.bincount(groups.of_own[np.isin(np.arange(len(own)), excluded, invert=True)], minlength=len(of_component))
    targets = [share * len(own) for share in shares.values()]
    open_ = np.flatnonzero((of_component < 0) & (groups.size > 0))
    stable = groups.rows.keys[groups.first[open_]]
    draws = mix64_array(mix64(salt, "split"), stable)
    order = np.lexsort((stable, draws))
    if groups.num < GREEDY_BELOW:
        filled = [int(sizes[of_component == place].sum()) for place in range(len(names))]
        chosen, oversized = _fill(sizes[open_][order].tolist(), filled, targets)
        of_component[open_[order]] = chosen
        method, oversized_at = GREEDY, open_[order][oversized]
    else:
        chosen_by_hash = np.searchsorted(_borders(shares), draws, side="right")
        limits = np.array([int(target) for target in targets], np.int64)
        too_large = sizes[open_] > limits[chosen_by_hash]
        of_component[open_] = np.where(too_large, _largest(targets), chosen_by_hash)
        method, oversized_at = HASH, open_[too_large]
    return Assignment(
        method=method, of_component=of_component, excluded=excluded, placed=own, oversized=np.sort(oversized_at)
    )


def strictness(names: tuple[str, ...], shares: Mapping[str, Fraction]) -> list[int]:
    """Places of the splits, the most strictly held out first: test, val, then others from the smallest share up."""
    first = {"test": 0, "val": 1}
    return sorted(range(len(names)), key=lambda place: (first.get(names[place], 2), shares[names[place]], names[place]))


def _strictest(groups: Groups, placed: Indices, names: tuple[str, ...], shares: Mapping[str, Fraction]) -> Indices:
    """[C] the strictest split in which a component was placed before; -1 where it is new."""
    of_component = np.full(len(groups.declared), -1)
    for place in reversed(strictness(names, shares)):
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


def _fill(sizes: list[int], filled: list[int], targets: list[Fraction]) -> tuple[list[int], list[int]]:
    """Give each component to the split that lacks most of its share and has room for it, else to the largest.

    Returns:
        the place of each component's split, and the indices of those too large for every other split.
    """
    largest = _largest(targets)
    chosen, oversized = [], []
    for index, size in enumerate(sizes):
        room = [place for place, target in enumerate(targets) if filled[place] + size <= target]
        if len(targets) > 1 and all(size > target for place, target in enumerate(targets) if place != largest):
            oversized.append(index)
        # Equally empty splits are served from the smallest share up, so that small ones do not go without.
        place = min(room or [largest], key=lambda p: (filled[p] / targets[p], targets[p], p))
        filled[place] += size
        chosen.append(place)
    return chosen, oversized


def check_not_empty(rows_of_split: Mapping[str, int], shares: Mapping[str, Fraction], groups: Groups) -> None:
    """Raises:
    ConfigError: where a split got nothing.
    """
    empty = [name for name, rows in rows_of_split.items() if rows == 0]
    if not empty or groups.rows.num_own == 0:
        return
    sizes = groups.size[groups.size > 0]
    asked = ", ".join(f"{name} asks for {float(shares[name] * groups.rows.num_own):g} examples" for name in empty)
    raise ConfigError(
        f"{', '.join(empty)} would be empty: {asked}, and of the {len(sizes)} groups the smallest has {sizes.min()}",
        hint="use --allow-empty, give it a larger share in --ratios, or group by something finer with --group-by",
    )
