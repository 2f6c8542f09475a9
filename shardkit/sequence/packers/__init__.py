"""Packers: which sequences of a block lie in one pack.

A packer is a function of the sizes and the capacities alone. What it does is part of the plan: one that packs in
another way gets a new version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.sequence.packers.best_fit import best_fit
from shardkit.sequence.packers.none import one_each

Pack = Callable[[npt.NDArray[np.integer[Any]], Sequence[int]], list[list[int]]]
"""sizes [N, K] and K capacities -> packs of indices into the block, each index exactly once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packer:
    pack: Pack
    version: int


PACKERS = {
    "best-fit": Packer(pack=best_fit, version=1),
    "none": Packer(pack=one_each, version=1),
}
