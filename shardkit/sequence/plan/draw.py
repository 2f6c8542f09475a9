"""Which sequences come next: one stream, or several mixed by the largest deficit.

A deficit is what a source lacks of its share of everything drawn so far. Of the sources that are not ahead, the one
is drawn that would be first to fall a whole sequence behind: its deficit is the largest for its weight. Plain
"largest deficit" drifts to two sequences off with many sources of unequal weights; this rule stays within one, at
every prefix, because no source is drawn ahead of its share and the most pressing one never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture, whole_weights
from shardkit.sequence.plan.order import Indices, Order, as_indices

ALL = ""
"""Name of the only stream where nothing is mixed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """How far each stream was drawn: all that a plan carries from one block to the next."""

    passes: tuple[int, ...]
    """The pass each stream is in: how often it was drawn whole."""
    offsets: tuple[int, ...]
    """Sequences drawn of that pass."""
    amounts: tuple[int, ...]
    """Units of the mixture drawn of each stream since the run began; 0 where nothing is mixed."""
    tokens: int = 0
    """Tokens drawn of all streams since the run began; 0 where nothing is mixed."""

    def to_json(self) -> list[Any]:
        return [list(self.passes), list(self.offsets), list(self.amounts), self.tokens]

    @classmethod
    def of(cls, value: list[Any]) -> Draw:
        passes, offsets, amounts, tokens = value
        return cls(passes=tuple(passes), offsets=tuple(offsets), amounts=tuple(amounts), tokens=tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """The sequences of a block in draw order."""

    indices: Indices
    after: Draw
    last: bool
    """Whether the epoch ends here."""


class Streams:
    """The sources of a plan and the rule that mixes them.

    Args:
        mixture: None draws everything as one stream.
        without: sequences that are left out of pass `first_pass`, because they were delivered under another plan.
    """

    def __init__(
        self,
        lengths: Lengths,
        mixture: Mixture | None,
        *,
        seed: int,
        window: int,
        first_pass: int = 0,
        without: Indices | None = None,
    ) -> None:
        self._tokens = lengths.tokens
        self._mixture = mixture
        self._first_pass = first_pass
        self._without = without
        weights = {ALL: 1} if mixture is None else whole_weights(mixture)
        self.names = tuple(weights)
        self._weights = tuple(weights.values())
        self._units = np.ones(len(lengths), np.int64) if mixture is None else mixture.units(lengths)
        self._rows = [
            np.arange(len(lengths)) if name == ALL else np.flatnonzero(lengths.source == lengths.sources.index(name))
            for name in self.names
        ]
        self.units = {name: int(self._units[rows].sum()) for name, rows in zip(self.names, self._rows, strict=True)}
        """Units of the mixture in one pass of each stream."""
        self._largest = max(int(self._units[rows].max(initial=1)) for rows in self._rows)
        self._orders = [Order(lengths, rows, seed=seed, window=window) for rows in self._rows]
        self._first_orders = self._orders
        if without is not None:
            left = [np.setdiff1d(rows, without) for rows in self._rows]
            self._first_orders = [Order(lengths, rows, seed=seed, window=window) for rows in left]

    def start(self) -> Draw:
        """Before anything was drawn."""
        none = (0,) * len(self.names)
        # A mixed stream never stands at a pass with nothing in it; the single one ends its epoch there.
        mixed = self._mixture is not None
        passes = tuple(self._first_pass + (mixed and not len(order)) for order in self._first_orders)
        return Draw(passes=passes, offsets=none, amounts=none)

    def _order(self, stream: int, pass_number: int) -> Order:
        return (self._first_orders if pass_number == self._first_pass else self._orders)[stream]

    def times_drawn(self, before: Draw) -> Indices:
        """[N] how often each sequence was drawn in the passes that the streams are in."""
        times = np.zeros(len(self._tokens), np.int64)
        for stream, (pass_number, offset) in enumerate(zip(before.passes, before.offsets, strict=True)):
            times[self._order(stream, pass_number).take(pass_number, 0, offset)] += 1
            if self._without is not None and pass_number == self._first_pass:
                times[np.intersect1d(self._rows[stream], self._without)] += 1
        return times

    def ahead(self, times: Indices) -> Indices:
        """The sequences that were drawn more often than the one drawn least of their stream."""
        ahead = [rows[times[rows] > times[rows].min(initial=np.iinfo(np.int64).max)] for rows in self._rows]
        return np.sort(np.concatenate(ahead))

    def draw(self, before: Draw, count: int, *, epoch: int, origin: Draw) -> Drawn:
        """At most `count` sequences after `before`; fewer where the epoch ends.

        Args:
            origin: the draw with which the epoch began.
        """
        if self._mixture is None:
            return self._draw_one(before, count)
        return self._draw_mixed(before, count, epoch, origin)

    def _draw_one(self, before: Draw, count: int) -> Drawn:
        (pass_number,), (offset,) = before.passes, before.offsets
        order = self._order(0, pass_number)
        indices = order.take(pass_number, offset, offset + count)
        offset += len(indices)
        last = offset >= len(order)
        # Amounts are kept for mixing only: without it, a place is its pass and its offset.
        after = Draw(passes=(pass_number + last,), offsets=(0 if last else offset,), amounts=(0,))
        return Drawn(indices=indices, after=after, last=last)

    def _draw_mixed(self, before: Draw, count: int, epoch: int, origin: Draw) -> Drawn:
        mixture = self._mixture
        assert mixture is not None
        streams = range(len(self.names))
        weights, whole = self._weights, sum(self._weights)
        passes, offsets, amounts = list(before.passes), list(before.offsets), list(before.amounts)
        tokens = before.tokens
        total = sum(amounts)
        reach = self._largest * whole
        # One more than can be needed: a list that runs out then means the end of a pass.
        upcoming = [self._upcoming(stream, passes[stream], offsets[stream], count + 1) for stream in streams]
        drawn: list[int] = []
        last = self._ended(passes, tokens, epoch, origin)
        while len(drawn) < count and not last:
            chosen, best_slack, best_weight = -1, 0, 1
            for stream in streams:
                slack = reach - weights[stream] * total + amounts[stream] * whole
                # Not ahead of its share, and the first to fall a whole sequence behind: least slack for its weight.
                if slack <= reach and (chosen < 0 or slack * best_weight < best_slack * weights[stream]):
                    chosen, best_slack, best_weight = stream, slack, weights[stream]
            index, amount, num_tokens = upcoming[chosen].pop()
            drawn.append(index)
            amounts[chosen] += amount
            total += amount
            tokens += num_tokens
            offsets[chosen] += 1
            if not upcoming[chosen]:
                passes[chosen] += 1
                offsets[chosen] = 0
                upcoming[chosen] = self._upcoming(chosen, passes[chosen], 0, count + 1)
                last = self._ended(passes, tokens, epoch, origin)
            elif mixture.epoch_tokens is not None:
                last = self._ended(passes, tokens, epoch, origin)
        after = Draw(passes=tuple(passes), offsets=tuple(offsets), amounts=tuple(amounts), tokens=tokens)
        return Drawn(indices=as_indices(drawn), after=after, last=last)

    def _upcoming(self, stream: int, pass_number: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """(index, units, tokens) of the next `count` sequences of a pass, the next one last."""
        indices = self._order(stream, pass_number).take(pass_number, offset, offset + count)[::-1]
        columns = (indices, self._units[indices], self._tokens[indices])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _ended(self, passes: list[int], tokens: int, epoch: int, origin: Draw) -> bool:
        mixture = self._mixture
        assert mixture is not None
        if mixture.epoch_tokens is not None:
            return tokens - origin.tokens >= mixture.epoch_tokens
        if mixture.epoch_source is not None:
            return passes[self.names.index(mixture.epoch_source)] > epoch
        return min(passes) > epoch
