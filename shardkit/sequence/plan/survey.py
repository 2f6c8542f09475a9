"""What a planning pass finds out about an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shardkit.sequence.plan.draw import Draw
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.order import Indices, as_indices


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Survey:
    draws: tuple[Draw, ...]
    """Before each block."""
    first_packs: Indices
    """[blocks + 1] number in the epoch of the first pack of each block; the last entry is the number of packs."""
    after: Draw
    """At the end of the epoch."""
    by_source: Mapping[str, Mapping[str, int]]
    """Source -> what was drawn of it: sequences, tokens, images, patches, supervised, cost."""
    tokens: Indices
    """[packs] tokens of each pack, in plan order; likewise the next three."""
    images: Indices
    patches: Indices
    costs: Indices

    @property
    def num_packs(self) -> int:
        return int(self.first_packs[-1])

    @property
    def sums(self) -> dict[str, int]:
        """tokens, images and patches of all packs."""
        return {name: int(getattr(self, name).sum()) for name in ("tokens", "images", "patches")}


class SurveyBuilder:
    """Adds up the blocks of an epoch, in order."""

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths
        self._columns = np.stack([lengths.tokens, lengths.images, lengths.patches, lengths.cost], axis=1)
        self._times = np.zeros(len(lengths), np.int64)
        self._draws: list[Draw] = []
        """Before each block, and after the last one."""
        self._first_packs = [0]
        self._sums: list[Indices] = [np.zeros((0, self._columns.shape[1]), np.int64)]

    def add(self, draw: Draw, packs: Sequence[tuple[int, ...]], after: Draw) -> None:
        """A block: the draw before it, its packs, the draw after it."""
        self._draws[-1:] = [draw, after]
        self._first_packs.append(self._first_packs[-1] + len(packs))
        if packs:
            members = as_indices([index for pack in packs for index in pack])
            starts = np.cumsum([0, *(len(pack) for pack in packs[:-1])])
            self._sums.append(np.add.reduceat(self._columns[members], starts, axis=0))
            np.add.at(self._times, members, 1)

    def finish(self) -> Survey:
        *draws, after = self._draws
        tokens, images, patches, costs = np.concatenate(self._sums).T
        return Survey(
            draws=tuple(draws),
            first_packs=as_indices(self._first_packs),
            after=after,
            by_source=self._by_source(),
            tokens=tokens,
            images=images,
            patches=patches,
            costs=costs,
        )

    def _by_source(self) -> dict[str, dict[str, int]]:
        lengths = self._lengths
        columns = {
            "sequences": np.ones(len(lengths), np.int64),
            "tokens": lengths.tokens,
            "images": lengths.images,
            "patches": lengths.patches,
            "supervised": lengths.supervised.sum(axis=0),
            "cost": lengths.cost,
        }
        chosen = [lengths.source == code for code in range(len(lengths.sources))]
        return {
            source: {name: int((column * self._times)[of].sum()) for name, column in columns.items()}
            for source, of in zip(lengths.sources, chosen, strict=True)
        }
