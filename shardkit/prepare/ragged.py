"""Values of many rows laid end to end, and the bounds of each row among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def bounds_of(counts: npt.NDArray[Any]) -> Numbers:
    """[n + 1] where each row begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def row_sums(bounds: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
    """[n] the sum of each row's values; of flags, how many are set."""
    sums = bounds_of(values)
    found: Numbers = sums[bounds[1:]] - sums[bounds[:-1]]
    return found
