"""Which packs of a global batch each rank gets."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from shardkit.errors import ConfigError


def check_world(global_batch: int, world_size: int) -> None:
    """Refuse a world size that cannot share the global batch evenly.

    Raises:
        ConfigError: naming the sizes that fit.
    """
    if world_size < 1 or global_batch % world_size:
        fitting = [size for size in range(1, global_batch + 1) if global_batch % size == 0]
        raise ConfigError(
            f"a global batch of {global_batch} packs cannot be shared evenly by {world_size} ranks "
            f"(world sizes that fit: {', '.join(map(str, fitting))})",
            hint=f"run on one of these numbers of ranks, or set --global-batch to a multiple of {max(world_size, 1)}",
        )


def shares(costs: Sequence[int], world_size: int) -> list[tuple[int, ...]]:
    """For each rank the places of its packs in the global batch, ascending; every rank gets equally many.

    The costliest pack goes first, each to the rank with the least cost so far that has room; ties go to the lower
    place and the lower rank. What all ranks get together is the global batch, whatever the world size.

        costs 9 7 3 2, two ranks      (0, 3) = 11    (1, 2) = 10
    """
    room = len(costs) // world_size
    members: list[list[int]] = [[] for _ in range(world_size)]
    ranks = [(0, rank) for rank in range(world_size)]
    """(cost so far, rank) of the ranks with room: a heap"""
    for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        load, rank = heappop(ranks)
        members[rank].append(place)
        if len(members[rank]) < room:
            heappush(ranks, (load + costs[place], rank))
    return [tuple(sorted(places)) for places in members]
