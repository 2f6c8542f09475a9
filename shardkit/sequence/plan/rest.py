"""What a plan left of an epoch when it was exchanged for another one, in the middle.

For each sequence the first pass of its source in which it is still to come (`due`). That says it exactly, also where a
small source is some passes ahead, where passes take turns with alternatives, or where sequences are new.

    due  3 4 3 3     pass 3 goes on with the sequences 0, 2 and 3; sequence 1 was delivered in it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardkit.digest import xxh3
from shardkit.sequence.part import Part
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.order import Indices, as_indices, next_turn

Ranges = tuple[tuple[int, int], ...]
"""(start, stop) of parts of a sequence: tokens `start` to `stop`, of which the first is context only."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rest:
    """A plan can begin there instead of at epoch 0."""

    epoch: int
    step: int
    """Steps of the epoch that were taken."""
    due: Indices
    """[N]"""
    began: tuple[int, ...]
    """The pass of each source with which the epoch began."""
    now: tuple[int, ...]
    """The pass of each source that goes on."""
    parts: Mapping[int, Ranges] = field(default_factory=dict)
    """What is left of sequences that were cut, and delivered in part."""
    tokens: int = 0
    """Delivered in the epoch."""
    run_tokens: int = 0
    """Drawn in the epochs before; with `run_steps` counted where a curriculum asks for it."""
    run_steps: int = 0

    def shift(self, lengths: Lengths) -> Indices:
        """[N] how many passes the source of each sequence is ahead of the epochs."""
        return np.array(self.now, np.int64)[lengths.source] - self.epoch if len(lengths) else np.zeros(0, np.int64)

    def to_json(self) -> list[Any]:
        """For digests."""
        numbers = (self.epoch, self.step, self.tokens, self.run_tokens, self.run_steps)
        parts = sorted((index, list(map(list, ranges))) for index, ranges in self.parts.items())
        return [*numbers, xxh3(self.due.astype("<i8").tobytes()), list(self.began), list(self.now), parts]

    def among(self, sources: tuple[str, ...], rows: Indices, target: Lengths) -> Rest:
        """The same for `target`, which holds these sequences at `rows`, and maybe others, which are still to come.

        Args:
            sources: those of the sequences of this rest.
        """
        here = {name: code for code, name in enumerate(sources)}
        began = tuple(self.began[here[name]] if name in here else 0 for name in target.sources)
        now = tuple(self.now[here[name]] if name in here else 0 for name in target.sources)
        due = next_turn(target, np.arange(len(target)), np.array(now, np.int64)[target.source])
        due[rows] = self.due
        return Rest(
            epoch=self.epoch,
            step=self.step,
            due=due,
            began=began,
            now=now,
            parts={int(rows[index]): ranges for index, ranges in self.parts.items()},
            tokens=self.tokens,
            run_tokens=self.run_tokens,
            run_steps=self.run_steps,
        )


def left_of(
    lengths: Lengths,
    delivered: Iterable[int],
    *,
    epoch: int,
    step: int,
    due: Indices,
    began: Mapping[str, int],
    before: Rest | None,
    run_tokens: int,
    run_steps: int,
) -> Rest:
    """What is left of an epoch after its first `step` steps.

    Args:
        delivered: the members of these steps, in any order.
        due: [N] as of the beginning of the epoch; it is counted on in place.
        began: the pass of each source that is drawn, with which the epoch began.
        before: what the epoch itself began with, where another plan had left it.
    """
    cut: dict[int, list[tuple[int, int]]] = defaultdict(list)
    whole: list[int] = []
    tokens = 0 if before is None else before.tokens
    for member in delivered:
        if isinstance(member, Part):
            cut[int(member)].append((member.start, member.stop))
            tokens += member.num_tokens
        else:
            whole.append(member)
    once = np.ones(len(lengths), np.int64) if lengths.period is None else lengths.period
    rows = as_indices(whole)
    tokens += int(lengths.tokens[rows].sum())
    np.add.at(due, rows, once[rows])
    parts: dict[int, Ranges] = {} if before is None else dict(before.parts)
    for index, ranges in cut.items():
        times, left = missing_ranges(int(lengths.tokens[index]), ranges, parts.pop(index, None))
        due[index] += times * int(once[index])
        if left:
            parts[index] = left
    now = passes_now(lengths, due, began)
    return Rest(
        epoch=epoch,
        step=step,
        due=due,
        began=tuple(began.get(name, now[code]) for code, name in enumerate(lengths.sources)),
        now=now,
        parts=parts,
        tokens=tokens,
        run_tokens=run_tokens,
        run_steps=run_steps,
    )


def passes_now(lengths: Lengths, due: Indices, began: Mapping[str, int]) -> tuple[int, ...]:
    """The pass of each source that goes on: the first one with anything left, or, where that is a whole one and not the
    first of the epoch, the one before, of which nothing is left."""
    first = next_turn(lengths, np.arange(len(lengths)), due)
    now = []
    for code, name in enumerate(lengths.sources):
        rows = np.flatnonzero(lengths.source == code)
        number = int(first[rows].min(initial=1 << 62)) if len(rows) else began.get(name, 0)
        whole = (first[rows] == next_turn(lengths, rows, np.full(len(rows), number))).all()
        now.append(number - 1 if whole and number > began.get(name, 0) else number)
    return tuple(now)


def missing_ranges(tokens: int, delivered: Iterable[tuple[int, int]], left: Ranges | None) -> tuple[int, Ranges]:
    """How often a sequence of so many tokens was delivered whole, and what lacks to once more; nothing where none was.

    Args:
        delivered: parts of it.
        left: what was still to come before; None for all.
    """
    changes = np.zeros(tokens, np.int64)
    """of the times that each target was delivered; the first is that of token 1"""
    for start, stop in delivered:
        changes[start] += 1
        changes[stop - 1] -= 1
    if left is not None:
        changes[0] += 1
        for start, stop in left:
            changes[start] -= 1
            changes[stop - 1] += 1
    times = np.cumsum(changes)[:-1]
    least = int(times.min())
    if times.max() == least:
        return least, ()
    bounds = np.flatnonzero(np.diff(np.concatenate([[0], times == least, [0]])))
    return least, tuple((start, stop + 1) for start, stop in bounds.reshape(-1, 2).tolist())
