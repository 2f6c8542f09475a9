"""Packers: which sequences of a block lie in one pack.

A packer is a function of the sizes and the capacities alone. What it does is part of the plan: one that packs in
another way gets a new version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shardkit.sequence.packers.best_fit import best_fit
from shardkit.sequence.packers.concat_and_split import concat_and_split
from shardkit.sequence.packers.first_fit import first_fit
from shardkit.sequence.packers.next_fit import next_fit
from shardkit.sequence.packers.none import one_each
from shardkit.sequence.packers.oldest_first import oldest_first

Pack = Callable[..., list[list[int]]]
"""sizes [N, K] and K capacities -> packs of indices into the block, each index exactly once. One that cuts also takes
[N] which sequences it must not cut; the Parts of one that it cut may lie in several packs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packer:
    pack: Pack
    version: int
    cuts: bool = False
    """Whether sequences may be divided between packs."""


PACKERS = {
    "best-fit": Packer(pack=best_fit, version=2),
    "oldest-first": Packer(pack=oldest_first, version=1),
    "first-fit": Packer(pack=first_fit, version=1),
    "next-fit": Packer(pack=next_fit, version=1),
    "concat-and-split": Packer(pack=concat_and_split, version=1, cuts=True),
    "none": Packer(pack=one_each, version=1),
}
