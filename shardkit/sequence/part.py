"""A part of a sequence: what a packer that cuts puts into a pack.

    sequence   bos  a  b  c  d  e  f          cut behind c
    parts      bos  a  b  c                   start 0, stop 4
                          c  d  e  f          start 3, stop 7: its first token is context only

Parts overlap by one token, so every token but the first of all is a target exactly once, with the token before it at
hand. What stood further ahead is out of sight: the price of cutting. Only sequences of one objective throughout and
without images are cut (`Lengths.plain`), so that lengths tell what a part holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardkit.sequence.sequence import Sequence


class Part(int):
    """The index of a sequence, with the first token and the one behind the last that are meant."""

    start: int
    stop: int

    def __new__(cls, index: int, start: int, stop: int) -> Part:
        part = super().__new__(cls, index)
        part.start, part.stop = start, stop
        return part

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self._key == other._key

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Part({int(self)}, {self.start}, {self.stop})"

    def __reduce__(self) -> tuple[type[Part], tuple[int, int, int]]:
        return Part, self._key

    @property
    def _key(self) -> tuple[int, int, int]:
        return int(self), self.start, self.stop


def part_of(sequence: Sequence, member: Any) -> Sequence:
    """The tokens of `sequence` that a member of a pack means: all of them, or those of a Part."""
    if not isinstance(member, Part):
        return sequence
    assert not sequence.slots, "only plain text is cut"
    own = slice(member.start, member.stop)
    return replace(sequence, input_ids=sequence.input_ids[own], objectives=b"\0" + sequence.objectives[own][1:])
