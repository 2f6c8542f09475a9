"""A sequence for people: its runs of text, control tokens and image slots, and what each counts for as a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.sequence import Sequence
from shardkit.text.tokenizer import Tokenizer

_NAMES = {byte: name for name, byte in OBJECTIVES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Tokens side by side that are of one kind."""

    kind: str
    """text, control or slots."""
    text: str
    """What a text says, the names of control tokens, or which image it is: `image 0, 224 x 224`."""
    objective: str
    """A name of OBJECTIVES; "none" where the tokens are no target."""
    document: int
    start: int
    """First token."""
    num_tokens: int


def pieces(sequence: Sequence, tokenizer: Tokenizer) -> list[Piece]:
    """The pieces of a sequence in order; together they hold each of its tokens once."""
    return list(_pieces(sequence, {token: name for name, token in tokenizer.controls.items()}, tokenizer))


def _pieces(sequence: Sequence, names: Mapping[int, str], tokenizer: Tokenizer) -> Iterator[Piece]:
    ids = sequence.input_ids.tolist()
    document_of = [-1] * len(ids)
    for number, start in enumerate(sequence.documents):
        document_of[start:] = [number] * (len(ids) - start)
    slot_of = [-1] * len(ids)
    for number, slot in enumerate(sequence.slots):
        slot_of[slot.start : slot.start + slot.count] = [number] * slot.count

    def key(at: int) -> tuple[int, int, int, bool]:
        return document_of[at], slot_of[at], sequence.objectives[at], ids[at] in names

    for (document, slot_number, objective, control), places in groupby(range(len(ids)), key):
        own = list(places)
        if slot_number >= 0:
            slot = sequence.slots[slot_number]
            kind, text = "slots", f"image {slot.image}, {slot.height} x {slot.width}"
        elif control:
            kind, text = "control", "".join(names[ids[at]] for at in own)
        else:
            kind, text = "text", tokenizer.decode([ids[at] for at in own])
        yield Piece(
            kind=kind, text=text, objective=_NAMES[objective], document=document, start=own[0], num_tokens=len(own)
        )


def to_json(piece: Piece) -> dict[str, Any]:
    """The fields of a piece."""
    return {name: getattr(piece, name) for name in Piece.__slots__}
