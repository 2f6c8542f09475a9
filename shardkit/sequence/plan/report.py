"""What an epoch of a plan will be, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardkit.sequence.plan.mixture import UNITS
from shardkit.sequence.plan.order import Indices
from shardkit.sequence.plan.plan import Plan
from shardkit.sequence.plan.shares import check_world, shares
from shardkit.sequence.plan.survey import Survey, delivered

_SHARES = dict(zip(UNITS, ("sequences", "tokens", "patches", "loss", "cost"), strict=True))
"""Denominator -> what is added up for it."""


def describe(plan: Plan, epoch: int, worlds: Sequence[int] = ()) -> dict[str, Any]:
    """Batches, fill, what a pack holds, delay, shares of the sources, balance of the ranks.

    Args:
        worlds: world sizes to balance.

    Raises:
        ConfigError: where a world size does not divide the global batch.
    """
    survey, size = plan.survey(epoch), plan.settings.global_batch
    for world in worlds:
        check_world(size, world)
    steps = plan.num_steps(epoch) - plan.start(epoch).step
    least, bound = plan.least_packs(epoch)
    costs = delivered(survey.costs, steps * size, plan.settings.tail)
    room = survey.num_packs * plan.settings.max_tokens
    return {
        "plan": plan.digest,
        "epoch": epoch,
        "steps": steps,
        "global_batch": size,
        "packs": survey.num_packs,
        "packs_left_out": max(survey.num_packs - steps * size, 0),
        "packs_filled_up": max(steps * size - survey.num_packs, 0),
        "sequences": sum(source["sequences"] for source in survey.by_source.values()),
        "tokens": survey.sums["tokens"],
        "fill": plan.fill(epoch),
        "least_packs": {"number": least, "by": bound},
        "padding": 1 - survey.sums["tokens"] / room if room else 0.0,
        "per_pack": {
            "sequences": _spread(survey.members),
            "tokens": _spread(survey.tokens),
            "images": _spread(survey.images),
            "patches": _spread(survey.patches),
            "cost": _spread(survey.costs),
        },
        "delay": _delay(survey),
        "autocorrelation": autocorrelation(survey.members),
        "mixture": _mixture(plan, survey),
        "sources": _sources(plan, epoch),
        "straggler": {str(world): _straggler(costs, size, world) for world in worlds},
    }


def autocorrelation(values: Indices) -> float:
    """Of each value with the next one; 0.0 where that is not defined. Sorted packs come near 1, shuffled ones near 0."""
    if len(values) < 3 or not values[:-1].std() or not values[1:].std():
        return 0.0
    return float(np.corrcoef(values[:-1], values[1:])[0, 1])


def _delay(survey: Survey) -> dict[str, float]:
    """Packs by which sequences come later than in the order of the draw, and the bound: the packs of a block."""
    counts = survey.delays
    total = int(counts.sum())
    if not total:
        return {"mean": 0.0, "p50": 0, "p99": 0, "max": 0, "bound": 0}
    reached = np.cumsum(counts)
    return {
        "mean": float((counts * np.arange(len(counts))).sum() / total),
        "p50": int(np.searchsorted(reached, 0.5 * total)),
        "p99": int(np.searchsorted(reached, 0.99 * total)),
        "max": int(np.flatnonzero(counts)[-1]),
        "bound": int(np.diff(survey.first_packs).max(initial=1)) - 1,
    }


def _mixture(plan: Plan, survey: Survey) -> dict[str, Any] | None:
    if plan.mixture is None:
        return None
    return {
        **plan.mixture.to_json(),
        "largest_gap": {"draw_in_sequences": survey.draw_gap, "inside_block_as_share": survey.pack_gap},
    }


def _sources(plan: Plan, epoch: int) -> dict[str, Any]:
    lengths, survey = plan.lengths, plan.survey(epoch)
    found = survey.by_source
    totals = {unit: sum(source[unit] for source in found.values()) for unit in _SHARES.values()}
    often = np.ones(len(lengths)) if lengths.period is None else 1 / lengths.period
    held = np.bincount(lengths.source, often, minlength=len(lengths.sources)).tolist()
    of_run = plan.passes(survey.after)
    return {
        name: {
            **source,
            "shares": {
                unit: source[column] / totals[column] if totals[column] else 0.0 for unit, column in _SHARES.items()
            },
            "passes": source["sequences"] / number,
            "passes_of_run": of_run.get(name, 0),
        }
        for (name, source), number in zip(found.items(), held, strict=True)
    }


def _spread(values: Indices) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(("mean", "p50", "p99", "max"), 0.0)
    median, tail = np.percentile(values, (50, 99))
    return {"mean": float(values.mean()), "p50": float(median), "p99": float(tail), "max": float(values.max())}


def _straggler(costs: Indices, size: int, world: int) -> float:
    """Cost of the costliest rank over that of the mean rank, averaged over the steps; 1.0 is perfect."""
    ratios = []
    for start in range(0, len(costs) - size + 1, size):
        of_step = costs[start : start + size].tolist()
        loads = [sum(of_step[place] for place in part) for part in shares(of_step, world)]
        if sum(loads):
            ratios.append(max(loads) * world / sum(loads))
    return float(np.mean(ratios)) if ratios else 1.0
