"""The members of packs: sequences, or parts of those that were cut, and what each counts for.

A sequence is known by its index into the lengths, a part by a `Part` of that index. Parts come from a packer that cuts,
and from a rest: what another plan left of a sequence that it had cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shardkit.errors import ConfigError
from shardkit.sequence.cost import cost
from shardkit.sequence.packers import PACKERS
from shardkit.sequence.part import Part
from shardkit.sequence.plan.draw import Drawn
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.order import Indices, as_indices
from shardkit.sequence.plan.rest import Ranges, Rest
from shardkit.sequence.plan.settings import PlanSettings, option

Pack = tuple[int, ...]
"""Indices into the lengths, in draw order; a `Part` is the index of a sequence that was cut."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Packed:
    """What was drawn, in packs of places: among `candidates`, or in the draw where there are none."""

    drawn: Drawn
    packs: list[list[int]]
    candidates: list[tuple[int, int, int, int]]
    """(place in the draw, index, first token, token behind the last) of what was packed; empty where all is whole."""


class Members:
    """Packs what is drawn, and adds up what packs hold.

    Args:
        rest: what another plan left.

    Raises:
        ConfigError: where a sequence that is not cut is above a limit.
    """

    def __init__(self, lengths: Lengths, settings: PlanSettings, rest: Rest | None = None) -> None:
        self._lengths = lengths
        self._names = tuple(settings.capacities)
        self._capacities = tuple(settings.capacities.values())
        self._packer = PACKERS[settings.packer]
        self._left = rest
        self._sizes = np.stack([getattr(lengths, name) for name in self._names], axis=1)
        self._may_be_parts = self._packer.cuts or bool(rest and rest.parts)
        """Elsewhere no member needs to be looked at."""
        self._plain = lengths.plain if self._may_be_parts else np.zeros(len(lengths), np.bool_)
        self._check_limits()

    def _check_limits(self) -> None:
        for name, capacity in zip(self._names, self._capacities, strict=True):
            held = getattr(self._lengths, name)
            longest = int((held[~self._plain] if self._packer.cuts else held).max(initial=0))
            if longest > capacity:
                shorter = ", or cut longer ones with `shardkit tokenize --max-tokens`" if name == "tokens" else ""
                raise ConfigError(
                    f"max_{name} is {capacity}, but the longest sequence has {longest} {name}",
                    hint=f"set {option(f'max_{name}')} to {longest} or more{shorter}",
                )

    # ------------------------------------------------------------------ packs
    def pack(self, drawn: Drawn) -> Packed:
        """The packs of what is drawn, in the packer's order."""
        sizes = self._sizes[drawn.indices]
        if not self._may_be_parts:
            return Packed(drawn=drawn, packs=self._packer.pack(sizes, self._capacities), candidates=[])
        candidates = [one for place in range(len(drawn.indices)) for one in self._candidates(drawn, place)]
        own = as_indices([place for place, *_ in candidates])
        sizes = sizes[own]
        for at, (_, index, start, stop) in enumerate(candidates):
            if stop - start < self._lengths.tokens[index]:
                sizes[at] = [
                    {"tokens": stop - start, "attention": (stop - start) ** 2}.get(name, 0) for name in self._names
                ]
        whole = (~self._plain[drawn.indices[own]],) if self._packer.cuts else ()
        return Packed(drawn=drawn, packs=self._packer.pack(sizes, self._capacities, *whole), candidates=candidates)

    def _candidates(self, drawn: Drawn, place: int) -> list[tuple[int, int, int, int]]:
        """What a drawn sequence gives to be packed: itself, or what is left of it."""
        index = int(drawn.indices[place])
        ranges: Ranges = ((0, int(self._lengths.tokens[index])),)
        if self._left and index in self._left.parts and drawn.passes[place] == self._left.due[index]:
            ranges = self._left.parts[index]
        return [(place, index, start, stop) for start, stop in ranges]

    def named(self, packed: Packed, order: Indices) -> tuple[tuple[Pack, ...], Indices]:
        """Packs in another order, as members; and of each member, in order, its place in the draw."""
        packs = [packed.packs[place] for place in order.tolist()]
        flat = as_indices([member for pack in packs for member in pack])
        if not self._may_be_parts:
            indices = packed.drawn.indices.tolist()
            return tuple([tuple([indices[member] for member in pack]) for pack in packs]), flat
        candidates = packed.candidates
        found = tuple(tuple([self._member(candidates, member) for member in pack]) for pack in packs)
        return found, as_indices([candidates[member][0] for member in flat.tolist()])

    def _member(self, candidates: Sequence[tuple[int, int, int, int]], member: int) -> int:
        """What a packer names by its place, or as a part of what is there, as an index or a part of a sequence."""
        _, index, start, stop = candidates[member]
        if isinstance(member, Part):
            start, stop = start + member.start, start + member.stop
        return index if stop - start == self._lengths.tokens[index] else Part(index, start, stop)

    # ------------------------------------------------------------------ sums
    def amounts(self, members: Sequence[int]) -> npt.NDArray[np.int64]:
        """[n, 5] tokens, images, patches, attention, cost of members of packs."""
        amounts = self._columns[as_indices(members)]
        for place, part in self._parts(members):
            tokens = part.num_tokens
            amounts[place] = (tokens, 0, 0, tokens * tokens, cost(tokens, 0))
        return amounts

    def targets(self, members: Sequence[int]) -> npt.NDArray[np.int64]:
        """[number of objectives, n] target tokens of members of packs, by the objective's byte."""
        targets = self._lengths.supervised[:, as_indices(members)]
        for place, part in self._parts(members):
            # Plain text: all of them count for the same.
            targets[:, place] = np.where(targets[:, place] > 0, part.num_tokens - 1, 0)
        return targets

    def denominators(self, packs: Sequence[Pack]) -> npt.NDArray[np.int64]:
        """[number of objectives] target tokens in `packs`, by the objective's byte."""
        sums: npt.NDArray[np.int64] = self.targets([member for pack in packs for member in pack]).sum(axis=1)
        return sums

    def costs(self, packs: Sequence[Pack]) -> list[int]:
        """The cost of each pack; see `Lengths.cost`."""
        members = [member for pack in packs for member in pack]
        bounds = np.cumsum([0, *(len(pack) for pack in packs)])
        sums = np.concatenate([[0], np.cumsum(self.amounts(members)[:, 4])])
        found: list[int] = np.diff(sums[bounds]).tolist()
        return found

    def _parts(self, members: Sequence[int]) -> list[tuple[int, Part]]:
        """(place, part) of those that are parts."""
        if not self._may_be_parts:
            return []
        return [(place, member) for place, member in enumerate(members) if isinstance(member, Part)]

    @cached_property
    def _columns(self) -> npt.NDArray[np.int64]:
        lengths = self._lengths
        return np.stack([lengths.tokens, lengths.images, lengths.patches, lengths.attention, lengths.cost], axis=1)
