"""Concat and split: sequences in draw order, end to end, cut where a pack is full.

Every pack but the last is full. The price: a part does not see what was cut off before it (see `Part`), and what may
not be cut (images, masked prompts, pairs) is laid whole. Where such a one does not fit, the next text fills the pack.

    capacities = (10,)       sizes  7 6 4 3       packs  [7  6:0-3] [6:2-6  4  3:0-2] [3:1-3]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shardkit.sequence.packers.sizes import Sizes, check_sizes
from shardkit.sequence.part import Part

_LEAST = 2
"""Tokens of a part: with fewer there is no target."""


def concat_and_split(
    sizes: Sizes, capacities: Sequence[int], whole: npt.NDArray[np.bool_] | None = None
) -> list[list[int]]:
    """Packs of the N sequences of `sizes` [N, K]; members that were cut are Parts.

    A part takes of every other limit its share of what the sequence takes, rounded up.

    Args:
        whole: [N] which sequences are not cut; none where not given.
    """
    stay = np.zeros(len(sizes), np.bool_) if whole is None else whole
    check_sizes(sizes[stay], capacities)
    rows, fixed = sizes.tolist(), stay.tolist()
    begun = [0] * len(rows)
    """token with which what is left of each sequence begins"""
    gone = bytearray(len(rows))
    next_text = first = 0
    packs: list[list[int]] = []
    pack: list[int] = []
    room = list(capacities)
    while first < len(rows):
        if gone[first]:
            first += 1
            continue
        index = first
        if fixed[index] and any(need > free for need, free in zip(rows[index], room, strict=True)):
            next_text = max(next_text, first)
            while next_text < len(rows) and (fixed[next_text] or gone[next_text]):
                next_text += 1
            index = next_text
        size = 0
        if index < len(rows):
            size = rows[index][0] if fixed[index] else _fitting(rows[index], room, begun[index])
        if size:
            stop = begun[index] + size
            used = rows[index] if size == rows[index][0] else _shares(rows[index], size)
            room = [free - need for free, need in zip(room, used, strict=True)]
            pack.append(index if size == rows[index][0] else Part(index, begun[index], stop))
            gone[index] = stop == rows[index][0]
            begun[index] = stop - 1
            if gone[index]:
                continue
        # Nothing more fits, or the last one was cut to what did.
        assert pack, "a part of two tokens is above a capacity"
        packs.append(_in_order(pack))
        pack, room = [], list(capacities)
    if pack:
        packs.append(_in_order(pack))
    return packs


def _fitting(row: Sequence[int], room: Sequence[int], begun: int) -> int:
    """Tokens of the next part of a sequence; 0 where none fits."""
    tokens = row[0]
    size = min(tokens - begun, room[0])
    for need, free in zip(row[1:], room[1:], strict=True):
        if need > free or (need and size < tokens):
            size = min(size, free * tokens // need)
    return size if size >= min(_LEAST, tokens - begun) else 0


def _shares(row: Sequence[int], size: int) -> list[int]:
    return [size, *(-(-need * size // row[0]) for need in row[1:])]


def _in_order(pack: list[int]) -> list[int]:
    return sorted(pack, key=int)
