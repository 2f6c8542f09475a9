"""Builds examples with images by the recipe vlm."""

from __future__ import annotations

from typing import Any

from shardkit.records import Example
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.tokenizer_builders import byte_level

TOKENIZER = Tokenizer(byte_level())
BOS, EOS, START, PATCH, END = (
    TOKENIZER.controls[name]
    for name in ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
)
TEXT, CAPTION, OCR = 1, 2, 3


def build(
    example: Example,
    *,
    max_tokens: int = 100,
    overlong: str = "window",
    tokenizer: Tokenizer = TOKENIZER,
    **fields: Any,
) -> Built:
    settings = {"image_size": 28, **fields}
    settings = {name: value for name, value in settings.items() if value is not None}
    recipe = bind(configure(RECIPES["vlm"], settings), tokenizer.controls)
    return recipe.build(example, tokenizer, recipe.image_processor(), max_tokens, overlong)


def only(built: Built) -> tuple[list[int], list[int]]:
    """Ids and objectives of the one sequence."""
    (sequence,) = built.sequences
    return sequence.input_ids.tolist(), list(sequence.objectives)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def texts(built: Built) -> list[str]:
    return [TOKENIZER.decode([i for i in s.input_ids.tolist() if i >= 8]) for s in built.sequences]
