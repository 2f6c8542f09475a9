"""Dialogues and preference pairs, and what recipes make of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardkit.digest import canonical_json
from shardkit.records import Example, Segment, example_id
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.sequence.sequence import Sequence
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example

TOKENIZER = Tokenizer.load(Path(__file__).resolve().parents[2] / "data" / "tokenizer")
EMPTY_THINK = "<think>\n\n</think>\n\n"
TOOLS = json.dumps([{"name": "f", "description": "\u67e5"}])

Said = tuple[str, str] | tuple[str, str, str]


def talk(*turns: Said, number: int = 0, **metadata: Any) -> Example:
    """A dialogue of (role, text) or (role, text, name); `number` makes it another example."""
    segments = tuple(Segment(kind="text", role=turn[0], text=turn[1], name=(*turn, None)[2]) for turn in turns)
    if number:
        metadata["number"] = number
    found = replace(make_example(), segments=segments, metadata=canonical_json(metadata).decode())
    return replace(found, example_id=example_id(found))


def pair(chosen: list[Said], rejected: list[Said], number: int = 0) -> Example:
    """A preference pair of two dialogues."""
    turns = [
        (turn[0], turn[1], ".".join([side, *turn[2:]]))
        for side, said in (("chosen", chosen), ("rejected", rejected))
        for turn in said
    ]
    return talk(*turns, number=number)


def build(name: str, example: Example, *, max_tokens: int = 4096, overlong: str = "window", **fields: Any) -> Built:
    recipe = bind(configure(RECIPES[name], fields), TOKENIZER.controls)
    return recipe.build(example, TOKENIZER, recipe.image_processor(), max_tokens, overlong)


def shown(sequence: Sequence) -> list[tuple[str, str]]:
    """Of each document its text, and of that the targets."""
    ids = sequence.input_ids.tolist()
    found = []
    for start, end in zip(sequence.documents, [*sequence.documents[1:], len(ids)], strict=True):
        targets = [
            token for token, objective in zip(ids[start:end], sequence.objectives[start:end], strict=True) if objective
        ]
        found.append((TOKENIZER.decode(ids[start:end]), TOKENIZER.decode(targets)))
    return found
