"""No packing: one sequence a pack, in order."""

from __future__ import annotations

from collections.abc import Sequence

from shardkit.sequence.packers.sizes import Sizes


def one_each(sizes: Sizes, _capacities: Sequence[int]) -> list[list[int]]:
    """A pack for each of the N sequences of `sizes` [N, K]. Capacities bind nothing: a sequence fits by itself."""
    return [[index] for index in range(len(sizes))]
