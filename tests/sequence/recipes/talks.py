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
from tests.example_builders import make_example, make_image

TOKENIZER = Tokenizer.load(Path(__file__).resolve().parents[2] / "data" / "tokenizer")
EMPTY_THINK = "<think>\n\n</think>\n\n"
IMAGE = "<|vision_start|><|image_pad|><|image_pad|><|image_pad|><|image_pad|><|vision_end|>"
"""What an image becomes with image_size=56."""
TOOLS = json.dumps([{"name": "f", "description": "\u67e5"}])

Said = tuple[str, str | int] | tuple[str, str | int, str]


def talk(*turns: Said, number: int = 0, **metadata: Any) -> Example:
    """A dialogue of (role, text) or (role, text, name); a number is an image. `number` makes it another example."""
    segments = tuple(map(_segment, turns))
    numbers = {segment.image for segment in segments if segment.image is not None}
    if number:
        metadata["number"] = number
    images = tuple(make_image(number=image) for image in range(max(numbers, default=-1) + 1))
    found = replace(make_example(), segments=segments, images=images, metadata=canonical_json(metadata).decode())
    return replace(found, example_id=example_id(found))


def _segment(turn: Said) -> Segment:
    role, said, name = (*turn, None)[:3]
    if isinstance(said, int):
        return Segment(kind="image", role=role, image=said, name=name)
    return Segment(kind="text", role=role, text=said, name=name)


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
