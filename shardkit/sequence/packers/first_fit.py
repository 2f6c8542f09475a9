"""First fit: sequences in draw order, each into the first pack that has room.

No sequence waits for another, so packs that were begun early fill up with what is small; the price is fill, about
0.97 on documents of mixed lengths, and a search over all packs of the block for each sequence.

    capacities = (10,)       sizes  7 6 4 3 3 2       packs  [7 3] [6 4] [3 2]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardkit.sequence.packers.sizes import Sizes, check_sizes


def first_fit(sizes: Sizes, capacities: Sequence[int]) -> list[list[int]]:
    """Packs of the N sequences of `sizes` [N, K], by their first members."""
    check_sizes(sizes, capacities)
    packs: list[list[int]] = []
    room = np.tile(np.asarray(capacities, np.int64), (len(sizes), 1))
    """[N, K] free in each pack, begun or not"""
    for index, size in enumerate(sizes.astype(np.int64)):
        # Of the packs that were not begun the first one has room, so there always is one.
        pack = int((room[: len(packs) + 1] >= size).all(axis=1).argmax())
        if pack == len(packs):
            packs.append([])
        packs[pack].append(index)
        room[pack] -= size
    return packs
