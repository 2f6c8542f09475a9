"""Best fit, largest first, under several limits at once.

A pack begins with the largest sequence that is left and takes, again and again, the largest that still fits all
limits. The price: only the sequences of one block are seen, so a block leaves one or two packs half empty.

    capacities = (10,)       sizes  7 6 4 3 3 2       packs  [7 3] [6 4] [3 2]

How large a sequence is, by several limits: the largest of its shares of a capacity. A sequence that strains one limit
comes before one that uses all of them a little. Ties: more of the first limit, then of the second and so on, then the
lower index. Integers throughout, so that every machine packs alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shardkit.sequence.packers.sizes import Sizes, at_most, check_sizes

_SHARE_BITS = 20
"""A share of a capacity is counted in 2**-20 parts."""


def best_fit(sizes: Sizes, capacities: Sequence[int]) -> list[list[int]]:
    """Packs of the N sequences of `sizes` [N, K], none above a capacity, members in ascending index.

    Sequences are known by their place, the largest at 0, and a set of places is an integer with those bits. For each
    limit the sets "at most this large" are made once for every size that occurs. The sequences that may still join a
    pack are then an intersection of K + 1 integers, and the next member is its lowest bit: a handful of operations
    on N bits for each sequence, however many packs there are.
    """
    check_sizes(sizes, capacities)
    limits = np.asarray(capacities, np.int64)
    order = _largest_first(sizes.astype(np.int64), limits)
    ordered = sizes[order].astype(np.int64)
    dimensions = [(ordered[:, k].tolist(), *at_most(ordered[:, k])) for k in range(len(limits))]
    index_of = order.tolist()

    packs: list[list[int]] = []
    left = (1 << len(index_of)) - 1
    while left:
        pack: list[int] = []
        room = list(capacities)
        fitting = left
        while fitting:
            lowest = fitting & -fitting
            place = lowest.bit_length() - 1
            pack.append(index_of[place])
            left ^= lowest
            fitting = left
            for k, (size_at, values, sets) in enumerate(dimensions):
                room[k] -= size_at[place]
                at = bisect_right(values, room[k])
                if not at:
                    fitting = 0
                    break
                fitting &= sets[at - 1]
        pack.sort()
        packs.append(pack)
    return packs


def _largest_first(sizes: npt.NDArray[np.int64], limits: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    # Of huge limits (attention: squares) the low bits are left out first, so that nothing leaves 64 bits.
    bits = np.array([max(limit.bit_length() - (62 - _SHARE_BITS), 0) for limit in limits.tolist()], np.int64)
    shares = ((sizes >> bits) << _SHARE_BITS) // np.maximum(limits >> bits, 1)
    weight = shares.max(axis=1, initial=0)
    # lexsort takes its most important key last, and is stable: equal sequences stay in ascending index.
    return np.lexsort((*(-sizes[:, k] for k in reversed(range(sizes.shape[1]))), -weight))
