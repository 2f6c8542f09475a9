"""Which sequences come next: one stream, or several mixed by what each lacks of its share (`deficit.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardkit.sequence.plan.deficit import by_deficit
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture, drawn_sources, whole_weights
from shardkit.sequence.plan.order import NEVER, Indices, Order, Upcoming, as_indices, next_turn
from shardkit.sequence.plan.rest import Rest

VERSION = 1
"""Of the rule that draws from several streams; part of every plan with a mixture."""
ALL = ""
"""Name of the only stream where nothing is mixed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """How far each stream was drawn: all that a plan carries from one block to the next.

    Only passes and offsets are counted where nothing is mixed.
    """

    passes: tuple[int, ...]
    """The pass each stream is in: how often it was drawn whole."""
    offsets: tuple[int, ...]
    """Sequences drawn of that pass."""
    amounts: tuple[int, ...]
    """Units of the mixture drawn of each stream since the shares were last set."""
    tokens: int = 0
    """Tokens drawn of all streams since the run began."""
    stage: int = 0
    """Which of the mixture's weights hold: 0, and one more for each change of its curriculum."""
    steps: int = 0
    """Steps of the run before this epoch."""
    packs: int = 0
    """Packs of this epoch before the block."""

    def to_json(self) -> list[Any]:
        numbers = (self.tokens, self.stage, self.steps, self.packs)
        return [list(self.passes), list(self.offsets), list(self.amounts), *numbers]

    @classmethod
    def of(cls, value: list[Any]) -> Draw:
        passes, offsets, amounts, tokens, stage, steps, packs = value
        return cls(
            passes=tuple(passes),
            offsets=tuple(offsets),
            amounts=tuple(amounts),
            tokens=tokens,
            stage=stage,
            steps=steps,
            packs=packs,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Drawn:
    """The sequences of a block in draw order."""

    indices: Indices
    passes: Indices
    """The pass of its source that each one is drawn in."""
    after: Draw
    last: bool
    """Whether the epoch ends here."""


class Streams:
    """The sources of a plan and the rule that mixes them.

    Args:
        mixture: None draws everything as one stream.
        rows: the sequences that there are; None for all.
        rest: what another plan left.
    """

    def __init__(
        self,
        lengths: Lengths,
        mixture: Mixture | None,
        *,
        seed: int,
        window: int,
        rows: Indices | None = None,
        rest: Rest | None = None,
    ) -> None:
        self._lengths = lengths
        self._mixture = mixture
        self._rest = rest
        self.names = (ALL,) if mixture is None else drawn_sources(mixture)
        self._units = np.ones(len(lengths), np.int64) if mixture is None else mixture.units(lengths)
        there = np.arange(len(lengths)) if rows is None else rows
        self._rows = [
            there if name == ALL else there[lengths.source[there] == lengths.sources.index(name)] for name in self.names
        ]
        self._largest = max(int(self._units[rows].max(initial=1)) for rows in self._rows)
        # Counted by epochs where all sources are one stream, of which each may be in another pass of its own.
        shift = None if mixture is not None or rest is None else rest.shift(lengths)
        self._shift = np.zeros(len(lengths), np.int64) if shift is None else shift
        self._orders = [
            Order(lengths, rows, seed=seed, window=window, due=rest.due if rest else None, shift=shift)
            for rows in self._rows
        ]
        if mixture is not None:
            limits = dict(mixture.repeat)
            self._stages = [_weights(mixture, stage, self.names) for stage in range(len(mixture.then) + 1)]
            self._limits = [limits.get(name, NEVER) for name in self.names]

    def shares_of(self, draw: Draw) -> tuple[Indices, dict[str, float]] | None:
        """[N] units of the mixture, and the share of each source that is drawn at `draw`; None unmixed."""
        if self._mixture is None:
            return None
        active, weights = self._active(draw), self._stages[draw.stage]
        whole = sum(weights[stream] for stream in active)
        return self._units, {self.names[stream]: weights[stream] / whole for stream in active}

    @property
    def largest(self) -> int:
        """Units of the largest sequence of all."""
        return self._largest

    # ------------------------------------------------------------------ places
    def start(self) -> Draw:
        """Before anything was drawn, or where another plan left off."""
        none = (0,) * len(self.names)
        if self._mixture is None:
            return Draw(passes=(self._rest.epoch if self._rest else 0,), offsets=none, amounts=none)
        if self._rest is None:
            return Draw(passes=none, offsets=none, amounts=none)
        due = next_turn(self._lengths, np.arange(len(self._lengths)), self._rest.due)
        passes = tuple(int(due[rows].min(initial=NEVER)) % NEVER for rows in self._rows)
        tokens = self._rest.run_tokens + self._rest.tokens
        return Draw(passes=passes, offsets=none, amounts=none, tokens=tokens, steps=self._rest.run_steps)

    def origin(self) -> Draw:
        """Before the epoch in which `start` is."""
        start = self.start()
        if self._mixture is None or self._rest is None:
            return start
        began = dict(zip(self._lengths.sources, self._rest.began, strict=True))
        return Draw(
            passes=tuple(began[name] for name in self.names),
            offsets=start.offsets,
            amounts=start.amounts,
            tokens=self._rest.run_tokens,
            steps=start.steps,
        )

    def source_passes(self, draw: Draw) -> dict[str, int]:
        """The pass that each source is in; of one that is not drawn none."""
        if self._mixture is not None:
            return dict(zip(self.names, draw.passes, strict=True))
        sources, first = np.unique(self._lengths.source, return_index=True)
        shifts = self._shift[first].tolist()
        return {
            self._lengths.sources[code]: draw.passes[0] + shift
            for code, shift in zip(sources.tolist(), shifts, strict=True)
        }

    def due(self, draw: Draw) -> Indices:
        """[N] the first pass of its source in which each sequence is still to come, at `draw`."""
        lengths = self._lengths
        due = np.zeros(len(lengths), np.int64) if self._rest is None else self._rest.due.copy()
        for stream, (number, offset) in enumerate(zip(draw.passes, draw.offsets, strict=True)):
            rows = self._rows[stream]
            due[rows] = next_turn(lengths, rows, np.maximum(due[rows], number + self._shift[rows]))
            drawn = self._orders[stream].take(number, 0, offset)
            due[drawn] += 1 if lengths.period is None else lengths.period[drawn]
        return due

    # ------------------------------------------------------------------ draws
    def draw(self, before: Draw, count: int, *, origin: Draw, step: int = 0) -> Drawn:
        """At most `count` sequences after `before`; fewer where the epoch ends.

        Args:
            origin: the draw with which the epoch began.
            step: of the run, in which the block begins; a curriculum by steps asks for it.
        """
        if self._mixture is None:
            return self._draw_one(before, count)
        return self._draw_mixed(before, count, origin, step)

    def _draw_one(self, before: Draw, count: int) -> Drawn:
        (number,), (offset,) = before.passes, before.offsets
        order = self._orders[0]
        indices = order.take(number, offset, offset + count)
        offset += len(indices)
        last = offset >= order.size(number)
        after = Draw(passes=(number + last,), offsets=(0 if last else offset,), amounts=(0,))
        return Drawn(indices=indices, passes=number + self._shift[indices], after=after, last=last)

    def _draw_mixed(self, before: Draw, count: int, origin: Draw, step: int) -> Drawn:
        """Piece by piece: within one the same sources are drawn by the same weights."""
        mixture = self._mixture
        assert mixture is not None
        draw, pieces, missing = self._staged(before, step), [], count
        last = self._over(draw, origin)
        while missing and not last:
            indices, passes, draw = self._piece(draw, missing, origin)
            pieces.append((indices, passes))
            missing -= len(indices)
            draw = self._staged(draw, None)
            last = self._over(draw, origin)
        return Drawn(
            indices=as_indices(np.concatenate([indices for indices, _ in pieces])) if pieces else as_indices([]),
            passes=as_indices(np.concatenate([passes for _, passes in pieces])) if pieces else as_indices([]),
            after=draw,
            last=last,
        )

    def _piece(self, draw: Draw, count: int, origin: Draw) -> tuple[Indices, Indices, Draw]:
        """At most `count` draws: up to where a weight changes, a source ends or the epoch does."""
        mixture = self._mixture
        assert mixture is not None
        active = self._active(draw)
        upcoming = [
            self._orders[stream].upcoming(draw.passes[stream], draw.offsets[stream], count, limit=self._limits[stream])
            for stream in active
        ]
        chosen = as_indices(
            by_deficit(
                [self._stages[draw.stage][stream] for stream in active],
                [draw.amounts[stream] for stream in active],
                [self._units[one.indices].tolist() for one in upcoming],
                count,
                self._largest,
            )
        )
        taken = [
            (stream, np.flatnonzero(chosen == place), one)
            for place, (stream, one) in enumerate(zip(active, upcoming, strict=True))
        ]
        """of each source the draws that are its, and what these take"""
        indices, passes = np.empty_like(chosen), np.empty_like(chosen)
        for _, at, one in taken:
            indices[at], passes[at] = one.indices[: len(at)], one.passes[: len(at)]
        tokens = draw.tokens + np.cumsum(self._lengths.tokens[indices])
        stop = self._stop(draw, origin, taken, tokens)
        numbers, offsets, amounts = list(draw.passes), list(draw.offsets), list(draw.amounts)
        for stream, at, one in taken:
            drawn = int(np.searchsorted(at, stop))
            amounts[stream] += int(self._units[one.indices[:drawn]].sum())
            numbers[stream], offsets[stream] = one.after(drawn)
        after = Draw(
            passes=tuple(numbers),
            offsets=tuple(offsets),
            amounts=tuple(amounts),
            tokens=int(tokens[stop - 1]),
            stage=draw.stage,
            steps=draw.steps,
            packs=draw.packs,
        )
        if self._active(after) != active:
            after = _anew(after, after.stage)
        return indices[:stop], passes[:stop], after

    def _stop(self, draw: Draw, origin: Draw, taken: Sequence[tuple[int, Indices, Upcoming]], tokens: Indices) -> int:
        """Of how many draws the piece is."""
        mixture = self._mixture
        assert mixture is not None
        stops = [len(tokens)]
        change = self._change(draw.stage)
        if change is not None and change.tokens is not None:
            stops.append(int(np.searchsorted(tokens, change.tokens)) + 1)
        if mixture.epoch_tokens is not None:
            stops.append(int(np.searchsorted(tokens, origin.tokens + mixture.epoch_tokens)) + 1)
        whole = {}
        """draws after which each source has been drawn whole in this epoch"""
        for stream, at, one in taken:
            ends = one.ends[one.ends <= len(at)]
            if draw.passes[stream] > origin.passes[stream]:
                whole[stream] = 0
            else:
                whole[stream] = int(at[ends[0] - 1]) + 1 if len(ends) else NEVER
            if self._limits[stream] != NEVER:
                left = ends[one.passes[ends - 1] + 1 >= self._limits[stream]]
                if len(left):
                    stops.append(int(at[left[0] - 1]) + 1)
        if mixture.epoch_tokens is None:
            stops.append(max(1, *(whole[stream] for stream in self._ending(list(whole)))))
        return min(stops)

    # ------------------------------------------------------------------ rules
    def _active(self, draw: Draw) -> list[int]:
        """The streams that are drawn from."""
        weights = self._stages[draw.stage]
        return [
            stream
            for stream in range(len(self.names))
            if weights[stream] and draw.passes[stream] < self._limits[stream] and len(self._rows[stream])
        ]

    def _ending(self, active: Sequence[int]) -> Sequence[int]:
        """The streams that decide when an epoch ends."""
        source = self._mixture.epoch_source if self._mixture else None
        named = [stream for stream in active if self.names[stream] == source]
        return named or active

    def _over(self, draw: Draw, origin: Draw) -> bool:
        """Whether the epoch is over, or nothing is left to draw."""
        mixture = self._mixture
        assert mixture is not None
        active = self._active(draw)
        if not active:
            return True
        if mixture.epoch_tokens is not None:
            return draw.tokens - origin.tokens >= mixture.epoch_tokens
        return all(draw.passes[stream] > origin.passes[stream] for stream in self._ending(active))

    def _change(self, stage: int) -> Any:
        assert self._mixture is not None
        return self._mixture.then[stage] if stage < len(self._mixture.then) else None

    def _staged(self, draw: Draw, step: int | None) -> Draw:
        """With the weights that hold there."""
        stage = draw.stage
        while (change := self._change(stage)) is not None:
            reached = (
                draw.tokens >= change.tokens if change.tokens is not None else step is not None and step >= change.step
            )
            if not reached:
                break
            stage += 1
        return draw if stage == draw.stage else _anew(draw, stage)

    def next_change(self, draw: Draw, step: int) -> int | None:
        """The step of the run with which other weights hold, where a curriculum says so by steps."""
        if self._mixture is None or not self._mixture.then:
            return None
        change = self._change(self._staged(draw, step).stage)
        return None if change is None else change.step


def _anew(draw: Draw, stage: int) -> Draw:
    """The same place, from which shares are counted anew."""
    return Draw(
        passes=draw.passes,
        offsets=draw.offsets,
        amounts=(0,) * len(draw.amounts),
        tokens=draw.tokens,
        stage=stage,
        steps=draw.steps,
        packs=draw.packs,
    )


def _weights(mixture: Mixture, stage: int, names: Sequence[str]) -> list[int]:
    weights = whole_weights(mixture, stage)
    return [weights.get(name, 0) for name in names]
