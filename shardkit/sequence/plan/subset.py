"""The part of the data that an ablation runs on: the first sequences that a mixture draws, up to a budget."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from shardkit.errors import ConfigError
from shardkit.sequence.plan.draw import Streams
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import SUBSET_UNITS, Mixture, whole_weights
from shardkit.sequence.plan.order import Indices

_DRAWN = 65_536
"""Sequences at a time."""


def subset_amounts(lengths: Lengths, mixture: Mixture, *, seed: int, window: int) -> dict[str, int]:
    """What a mixture's subset holds of every unit that a subset may be of."""
    rows = subset_rows(lengths, mixture, seed=seed, window=window)
    chosen = slice(None) if rows is None else rows
    return {
        unit: int(replace(mixture, by=by, objectives=()).units(lengths)[chosen].sum())
        for unit, by in SUBSET_UNITS.items()
    }


def attainable(lengths: Lengths, mixture: Mixture, *, seed: int, window: int) -> tuple[Mixture, tuple[str, ...]]:
    """The mixture of a subset with shares that its sources can keep, and the sources that have less than they were to give.

    Where there are such, the weights become what the subset holds of each source. With the old ones an epoch would draw
    those short sources several times, and more than the budget.
    """
    rows = subset_rows(lengths, mixture, seed=seed, window=window)
    assert rows is not None, "the mixture has a subset"
    units, number = mixture.units(lengths), len(lengths.sources)
    held = np.bincount(lengths.source[rows], units[rows], minlength=number)
    whole = np.bincount(lengths.source, units, minlength=number)
    weights = whole_weights(mixture)
    asked = [held.sum() * (weights.get(name, 0) / sum(weights.values())) for name in lengths.sources]
    short = tuple(
        name
        for name, has, all_of_it, wanted in zip(lengths.sources, held, whole, asked, strict=True)
        if has == all_of_it and has + units.max(initial=0) < wanted
    )
    if not short:
        return mixture, ()
    shares = tuple((name, Fraction(int(has))) for name, has in zip(lengths.sources, held, strict=True))
    return replace(mixture, weights=shares), short


def subset_rows(lengths: Lengths, mixture: Mixture | None, *, seed: int, window: int) -> Indices | None:
    """The sequences of a mixture's subset, ascending; None for all.

    Drawn by the mixture's first weights, each at most once, until the budget is reached: a larger one holds a smaller one.
    Of an example whose alternatives take turns, all alternatives are in it.

    Raises:
        ConfigError: where all that is drawn is less than the budget.
    """
    if mixture is None or mixture.subset is None:
        return None
    unit, budget = mixture.subset
    amounts = replace(mixture, by=SUBSET_UNITS[unit], objectives=()).units(lengths)
    once = replace(
        mixture,
        subset=None,
        then=(),
        epoch_source=None,
        epoch_tokens=None,
        repeat=tuple((name, 1) for name in lengths.sources),
    )
    streams = Streams(lengths, once, seed=seed, window=window)
    origin = before = streams.start()
    drawn: list[Indices] = []
    reached = 0
    last = False
    while reached < budget and not last:
        block = streams.draw(before, _DRAWN, origin=origin)
        sums = reached + np.cumsum(amounts[block.indices])
        drawn.append(block.indices[: int(np.searchsorted(sums, budget)) + 1])
        reached = int(sums[-1]) if len(sums) else reached
        before, last = block.after, block.last
    if reached < budget:
        raise ConfigError(
            f"a subset of {budget} {unit} is more than there is: all that the mixture draws are {reached} {unit}",
            hint="lower the budget, or leave the subset out",
        )
    rows = np.sort(np.concatenate(drawn))
    if lengths.example is None:
        return rows
    return np.flatnonzero(np.isin(lengths.example, lengths.example[rows]))
