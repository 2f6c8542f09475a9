"""A plan that goes on from others, of which each left a part of an epoch: what a state of a loader says of them.

A link is what another plan goes on from: `bound` (its settings and mixture), `cursor` and `streams` (the place that it
was left at) and `shards` (which shards of sequences it knew; None for all).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from shardkit.digest import fingerprint
from shardkit.sequence.plan.draw import Draw
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture
from shardkit.sequence.plan.order import Indices
from shardkit.sequence.plan.plan import Cursor, Plan
from shardkit.sequence.plan.rest import Rest
from shardkit.sequence.plan.settings import PlanSettings


def state_digest(state: Mapping[str, Any]) -> str:
    """Of all that a state of a loader says, but its `digest`.

    Raises:
        TypeError: where it holds what JSON cannot.
    """
    return fingerprint({name: value for name, value in state.items() if name != "digest"})


def plan_after(
    rests: Sequence[Mapping[str, Any]],
    lengths: Lengths,
    settings: PlanSettings,
    mixture: Mixture | None,
    identity: Mapping[str, Any],
    *,
    shards: Sequence[Sequence[int]] | None = None,
) -> Plan:
    """The plan of these settings, where it goes on from the plans in `rests`, each of which went on from the one before.

    Args:
        shards: runs of those that it knows; None for all of `lengths`.
    """
    mixtures = [Mixture.of(link["bound"]["mixture"]) if link["bound"]["mixture"] else None for link in rests]
    held = [*(held_by(link["shards"], lengths) for link in rests), held_by(shards, lengths)]
    rest: Rest | None = None
    for number, (link, of_link) in enumerate(zip(rests, mixtures, strict=True)):
        saved, (part, rows) = link["bound"], held[number]
        plan = Plan(
            part,
            PlanSettings(**{name: saved[name] for name in PlanSettings.__slots__}),
            mixture=of_link,
            identity=identity,
            rest=rest,
        )
        later = (*mixtures[number + 1 :], mixture)
        of_run = any(one is not None and one.then for one in later)
        rest = plan.rest_at(read_cursor(plan, link), of_run=of_run)
        following, rows_after = held[number + 1]
        if following is not part:
            places = np.zeros(len(lengths), np.int64)
            places[rows_after] = np.arange(len(rows_after))
            rest = rest.among(part.sources, places[rows], following)
    return Plan(held[-1][0], settings, mixture=mixture, identity=identity, rest=rest)


def read_cursor(plan: Plan, state: Mapping[str, Any]) -> Cursor:
    """The cursor that `write_cursor` wrote, for the same plan."""
    place, streams = state["cursor"], state["streams"]
    if streams is None:
        start = plan.start(place["epoch"])
        offset = place["block"] * plan.settings.block
        draw = Draw(passes=start.draw.passes, offsets=(offset,), amounts=(0,))
        return Cursor(**place, draw=draw, origin=start.origin)
    return Cursor(**place, draw=Draw.of(streams["draw"]), origin=Draw.of(streams["origin"]))


def held_by(runs: Sequence[Sequence[int]] | None, lengths: Lengths) -> tuple[Lengths, Indices]:
    """The lengths of some shards, counted as in the dataset that held only these, and their places in `lengths`."""
    if runs is None:
        return lengths, np.arange(len(lengths))
    places = expand(runs, 0)
    numbers = np.full(int(max(lengths.shard.max(initial=0), max(places, default=0))) + 1, -1, np.int32)
    numbers[places] = np.arange(len(places), dtype=np.int32)
    shard = numbers[lengths.shard]
    rows = np.flatnonzero(shard >= 0)
    rows = rows[np.lexsort((lengths.row[rows], shard[rows]))]
    return lengths.take(rows, shard[rows]), rows


def expand(runs: Sequence[Sequence[int]] | None, number: int) -> list[int]:
    """The places of runs; all of `number` shards where there are none."""
    if runs is None:
        return list(range(number))
    return [place for first, count in runs for place in range(first, first + count)]
