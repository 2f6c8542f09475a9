"""What all packers ask of their input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Sizes = npt.NDArray[np.integer[Any]]
"""[N, K] what each sequence takes of each limit; the first limit is of tokens."""


def check_sizes(sizes: Sizes, capacities: Sequence[int]) -> None:
    """Refuse a sequence that alone is above a capacity; a plan says so before, with both numbers.

    Raises:
        ValueError
    """
    if (sizes > np.asarray(capacities, np.int64)).any():
        raise ValueError("a sequence is above a capacity")


def at_most(column: npt.NDArray[np.integer[Any]]) -> tuple[list[int], list[int]]:
    """The sizes that occur in `column`, ascending, and for each the set of places with at most that size."""
    by_size = np.argsort(column, kind="stable")
    values, counts = np.unique(column, return_counts=True)
    sets: list[int] = []
    bits = 0
    start = 0
    places = by_size.tolist()
    for count in counts.tolist():
        for place in places[start : start + count]:
            bits |= 1 << place
        start += count
        sets.append(bits)
    return values.tolist(), sets
