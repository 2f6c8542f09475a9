"""What an epoch of a plan will be, in figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardkit.sequence.plan.order import Indices
from shardkit.sequence.plan.plan import Plan
from shardkit.sequence.plan.shares import check_world, shares

_UNITS = ("sequences", "tokens", "images", "patches", "supervised", "cost")


def describe(plan: Plan, epoch: int, worlds: Sequence[int] = ()) -> dict[str, Any]:
    """Batches, fill, what a pack holds, shares of the sources, balance of the ranks.

    Args:
        worlds: world sizes to balance.

    Raises:
        ConfigError: where a world size does not divide the global batch.
    """
    survey, size = plan.survey(epoch), plan.settings.global_batch
    for world in worlds:
        check_world(size, world)
    steps = plan.num_steps(epoch) - plan.start(epoch).step
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
        "padding": 1 - survey.sums["tokens"] / room if room else 0.0,
        "per_pack": {
            "tokens": _spread(survey.tokens),
            "images": _spread(survey.images),
            "patches": _spread(survey.patches),
            "cost": _spread(survey.costs),
        },
        "sources": _sources(plan, epoch),
        "straggler": {str(world): _straggler(survey.costs[: steps * size], size, world) for world in worlds},
    }


def _sources(plan: Plan, epoch: int) -> dict[str, Any]:
    found = plan.survey(epoch).by_source
    totals = {unit: sum(source[unit] for source in found.values()) for unit in _UNITS}
    held = np.bincount(plan.lengths.source, minlength=len(plan.lengths.sources)).tolist()
    return {
        name: {
            **source,
            "shares": {unit: source[unit] / totals[unit] if totals[unit] else 0.0 for unit in _UNITS},
            "passes": source["sequences"] / number,
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
