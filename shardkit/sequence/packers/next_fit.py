"""Next fit: sequences in draw order, a new pack where the next one does not fit.

The order stays and nothing is searched; the price is fill, about 0.8 on documents of mixed lengths.

    capacities = (10,)       sizes  7 6 4 3 3 2       packs  [7] [6 4] [3 3 2]
"""

from __future__ import annotations

from collections.abc import Sequence

from shardkit.sequence.packers.sizes import Sizes, check_sizes


def next_fit(sizes: Sizes, capacities: Sequence[int]) -> list[list[int]]:
    """Packs of the N sequences of `sizes` [N, K], in their order."""
    check_sizes(sizes, capacities)
    packs: list[list[int]] = []
    room: list[int] = []
    for index, size in enumerate(sizes.tolist()):
        if packs and all(need <= free for need, free in zip(size, room, strict=True)):
            packs[-1].append(index)
            room = [free - need for need, free in zip(size, room, strict=True)]
        else:
            packs.append([index])
            room = [limit - need for need, limit in zip(size, capacities, strict=True)]
    return packs
