"""What a planning pass finds out about an epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shardkit.sequence.plan.draw import Draw, Streams
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture, objective_weights
from shardkit.sequence.plan.order import Indices, as_indices

SUMMED = ("sequences", "tokens", "images", "patches", "supervised", "loss", "cost")
"""What is added up of each source; a sequence that was cut counts once a part. `loss` is target tokens times the weight
of their objective, in whole numbers."""


class Packed(Protocol):
    """A block, as far as it is surveyed."""

    @property
    def packs(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def after(self) -> Draw: ...
    @property
    def places(self) -> Indices: ...
    @property
    def drawn(self) -> Indices: ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Survey:
    draws: tuple[Draw, ...]
    """Before each block."""
    first_packs: Indices
    """[blocks + 1] number in the epoch of the first pack of each block; the last entry is the number of packs."""
    after: Draw
    """At the end of the epoch."""
    by_source: Mapping[str, Mapping[str, int]]
    """Source -> what was drawn of it, by SUMMED."""
    tokens: Indices
    """[packs] tokens of each pack, in plan order; likewise the next four."""
    images: Indices
    patches: Indices
    attention: Indices
    costs: Indices
    members: Indices
    """[packs] sequences of each."""
    delays: Indices
    """[d] sequences that come d packs later than they would if packs came in the order of the draw."""
    draw_gap: float
    """Mixed: the most that a source was off its share after any draw, in sequences of the largest size."""
    pack_gap: float
    """Mixed: the most that a source's share of a block, as delivered, was off after any of its packs, as a share of it."""

    @property
    def num_packs(self) -> int:
        return int(self.first_packs[-1])

    @property
    def sums(self) -> dict[str, int]:
        """What limits count, of all packs."""
        return {name: int(getattr(self, name).sum()) for name in ("tokens", "images", "patches", "attention")}


class SurveyBuilder:
    """Adds up the blocks of an epoch, in order."""

    def __init__(self, lengths: Lengths, streams: Streams, mixture: Mixture | None) -> None:
        self._lengths = lengths
        self._weights = objective_weights(mixture)
        self._streams = streams
        self._by_source = np.zeros((len(lengths.sources), len(SUMMED)), np.int64)
        self._draws: list[Draw] = []
        """Before each block, and after the last one."""
        self._first_packs = [0]
        self._packs: list[Indices] = []
        """[packs, 6] members, tokens, images, patches, attention, cost"""
        self._delays = np.zeros(1, np.int64)
        self._draw_gap = self._pack_gap = 0.0

    def add(self, draw: Draw, block: Packed, members: Indices, amounts: Indices, targets: Indices) -> None:
        """A block, with all members of its packs.

        Args:
            draw: before it.
            amounts: [n, 5] tokens, images, patches, attention and cost of each member.
            targets: [number of objectives, n]
        """
        self._draws[-1:] = [draw, block.after]
        self._first_packs.append(self._first_packs[-1] + len(block.packs))
        if not block.packs:
            return
        counts = as_indices([len(pack) for pack in block.packs])
        starts = np.cumsum(counts) - counts
        self._packs.append(np.column_stack([counts, np.add.reduceat(amounts, starts, axis=0)]))
        columns = np.column_stack(
            [
                np.ones(len(members), np.int64),
                amounts[:, :3],
                targets.sum(axis=0),
                self._weights @ targets,
                amounts[:, 4],
            ]
        )
        sources = self._lengths.source[members]
        for code in np.unique(sources).tolist():
            self._by_source[code] += columns[sources == code].sum(axis=0)
        self._add_delays(block, counts)
        shares = self._streams.shares_of(draw)
        if shares is not None:
            self._add_gaps(draw, block, members, shares)

    def _add_delays(self, block: Packed, counts: Indices) -> None:
        packs = np.repeat(np.arange(len(counts)), counts)
        delays = np.bincount((packs - block.places * len(counts) // len(block.drawn)).clip(min=0))
        longer = max(len(delays), len(self._delays))
        self._delays = np.pad(self._delays, (0, longer - len(self._delays)))
        self._delays[: len(delays)] += delays

    def _add_gaps(self, draw: Draw, block: Packed, members: Indices, shares: tuple[Indices, dict[str, float]]) -> None:
        units, share_of = shares
        starts = np.cumsum([0, *(len(pack) for pack in block.packs[:-1])])
        lengths, whole = self._lengths, units[members].sum()
        codes = np.unique(lengths.source[block.drawn])
        everything = np.cumsum(units[block.drawn])
        same = block.after.stage == draw.stage and sum(block.after.amounts) == sum(draw.amounts) + everything[-1]
        before = dict(zip(self._streams.names, draw.amounts, strict=True))
        for code in codes.tolist():
            own = np.where(lengths.source[block.drawn] == code, units[block.drawn], 0)
            if same:
                name = lengths.sources[code]
                held = before[name] + np.cumsum(own)
                off = held - (sum(draw.amounts) + everything) * share_of.get(name, 0.0)
                self._draw_gap = max(self._draw_gap, float(np.abs(off).max()) / self._streams.largest)
            if whole:
                of_packs = np.add.reduceat(np.where(lengths.source[members] == code, units[members], 0), starts)
                all_packs = np.add.reduceat(units[members], starts)
                off = np.cumsum(of_packs) - np.cumsum(all_packs) * (of_packs.sum() / whole)
                self._pack_gap = max(self._pack_gap, float(np.abs(off).max() / whole))

    def finish(self) -> Survey:
        *draws, after = self._draws
        packs = np.concatenate(self._packs) if self._packs else np.zeros((0, 6), np.int64)
        members, tokens, images, patches, attention, costs = packs.T
        return Survey(
            draws=tuple(draws),
            first_packs=as_indices(self._first_packs),
            after=after,
            by_source={
                name: dict(zip(SUMMED, sums, strict=True))
                for name, sums in zip(self._lengths.sources, self._by_source.tolist(), strict=True)
            },
            tokens=tokens,
            images=images,
            patches=patches,
            attention=attention,
            costs=costs,
            members=members,
            delays=self._delays,
            draw_gap=self._draw_gap,
            pack_gap=self._pack_gap,
        )


def delivered(values: Indices, number: int, tail: str) -> Indices:
    """Of [packs, ...] values those of the `number` packs that whole steps deliver: the last packs are left out, or what
    lacks is filled up as the tail says, with the first ones or with nothing."""
    missing = number - len(values)
    if missing <= 0 or not len(values):
        return values[:number]
    again = values[np.arange(missing) % len(values)]
    return np.concatenate([values, again if tail == "wrap" else np.zeros_like(again)])
