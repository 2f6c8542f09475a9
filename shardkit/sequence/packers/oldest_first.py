"""Oldest first, then best fit: of a window of waiting sequences the oldest begins a pack, and the largest that fit fill it.

No sequence waits for as many packs as the window is wide, also inside a block, and packs do not come out sorted by
length. The price: a little fill against best fit over the whole block.

    capacities = (10,)       sizes  7 6 4 3 3 2       packs  [7 3] [6 4] [3 2]

How large a sequence is, by several limits: the largest of its shares of a capacity; ties go to the older one. Compared
as whole numbers, so that every machine packs alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import lcm

from shardkit.sequence.packers.sizes import Sizes, at_most, check_sizes

WINDOW = 256
"""Sequences that wait."""


def oldest_first(sizes: Sizes, capacities: Sequence[int]) -> list[list[int]]:
    """Packs of the N sequences of `sizes` [N, K], by the age of their oldest member.

    Sets of sequences are integers, as in `best_fit`: bit p stands for the p-th largest.
    """
    check_sizes(sizes, capacities)
    common = lcm(*capacities)
    scale = [common // capacity for capacity in capacities]
    rows = sizes.tolist()
    shares = [max(size * one for size, one in zip(row, scale, strict=True)) for row in rows]
    index_of = sorted(range(len(rows)), key=lambda index: (-shares[index], index))
    place_of = [0] * len(rows)
    for place, index in enumerate(index_of):
        place_of[index] = place
    dimensions = [at_most(sizes[index_of, k]) for k in range(len(capacities))]

    waiting = joined = oldest = 0
    packs: list[list[int]] = []
    while oldest < len(rows):
        while joined < len(rows) and waiting.bit_count() < WINDOW:
            waiting |= 1 << place_of[joined]
            joined += 1
        pack: list[int] = []
        room = list(capacities)
        place, fitting = place_of[oldest], 1
        while fitting:
            pack.append(index_of[place])
            waiting ^= 1 << place
            room = [free - need for free, need in zip(room, rows[index_of[place]], strict=True)]
            fitting = waiting
            for free, (values, sets) in zip(room, dimensions, strict=True):
                at = bisect_right(values, free)
                fitting &= sets[at - 1] if at else 0
            place = (fitting & -fitting).bit_length() - 1
        packs.append(sorted(pack))
        while oldest < joined and not waiting >> place_of[oldest] & 1:
            oldest += 1
    return packs
