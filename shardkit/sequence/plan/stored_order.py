"""A plan without chance: every sequence once, in the order it is stored. What evaluation reads.

Blocks of sequences are packed as they come and their packs are taken in the packer's order. Nothing depends on a seed
or an epoch; of an example whose sequences alternate from pass to pass, those of the first pass are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.digest import fingerprint
from shardkit.errors import ConfigError
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.plan.draw import Draw
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.members import Members, Pack
from shardkit.sequence.plan.plan import Cursor, Step
from shardkit.sequence.plan.settings import PlanSettings

VERSION = 1
_NOTHING = Draw(passes=(0,), offsets=(0,), amounts=(0,))


class StoredOrder:
    """The steps of the one epoch; the last is filled up with empty packs.

    Args:
        settings: `seed`, `tail` and `window` count for nothing.
        identity: what the lengths are of (dataset id, split); enters the digest.

    Raises:
        ConfigError: where a sequence is above a limit, or the packer would cut sequences.
    """

    def __init__(self, lengths: Lengths, settings: PlanSettings, *, identity: Mapping[str, Any]) -> None:
        self.lengths = lengths
        self.settings = settings
        self.identity = dict(identity)
        packer = PACKERS[settings.packer]
        if packer.cuts:
            raise ConfigError(
                f"the packer {settings.packer} cuts sequences, and what is evaluated stays whole",
                hint="choose another packer",
            )
        self._pack = packer.pack
        self._members = Members(lengths, settings)
        self._sizes = np.stack([getattr(lengths, name) for name in settings.capacities], axis=1)
        first = np.ones(len(lengths), np.bool_) if lengths.turn is None else lengths.turn == 0
        self._order = np.flatnonzero(first)

    @cached_property
    def digest(self) -> str:
        """32 hex digits: equal for equal batches."""
        names = ["max_tokens", "max_images", "max_patches", "global_batch", "packer", "block"]
        if self.settings.max_attention is not None:  # younger than the others: without it digests stay as they were
            names.append("max_attention")
        settings = asdict(self.settings)
        return fingerprint(
            {
                "identity": self.identity,
                "settings": {name: settings[name] for name in names},
                "order": ["stored", VERSION],
                "packer": PACKERS[self.settings.packer].version,
            }
        )

    def packs(self) -> Iterator[Pack]:
        """All packs in order."""
        for start in range(0, len(self._order), self.settings.block):
            indices = self._order[start : start + self.settings.block]
            members = indices.tolist()
            for pack in self._pack(self._sizes[indices], tuple(self.settings.capacities.values())):
                yield tuple(members[place] for place in pack)

    def steps(self) -> Iterator[Step]:
        """The global batches in order."""
        size = self.settings.global_batch
        packs: list[Pack] = []
        number = 0
        for pack in self.packs():
            packs.append(pack)
            if len(packs) == size:
                yield _step(number, packs)
                packs, number = [], number + 1
        if packs:
            yield _step(number, [*packs, *[()] * (size - len(packs))])

    @cached_property
    def num_steps(self) -> int:
        """Takes a planning pass."""
        return -(-sum(1 for _ in self.packs()) // self.settings.global_batch)

    def costs(self, packs: Sequence[Pack]) -> list[int]:
        """The cost of each pack; see `Lengths.cost`."""
        return self._members.costs(packs)

    def denominators(self, packs: Sequence[Pack]) -> npt.NDArray[np.int64]:
        """[number of objectives] target tokens in `packs`, by the objective's byte."""
        return self._members.denominators(packs)


def _step(number: int, packs: Sequence[Pack]) -> Step:
    after = Cursor(epoch=0, step=number + 1, block=0, pack=0, draw=_NOTHING, origin=_NOTHING)
    return Step(epoch=0, step=number, packs=tuple(packs), after=after)
