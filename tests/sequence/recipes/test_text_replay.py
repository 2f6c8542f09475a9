"""The texts of anything, as ordinary text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardkit.records import Example, Relation, Segment
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example
from tests.tokenizer_builders import byte_level

TOKENIZER = Tokenizer(byte_level())
BOS, EOS = (TOKENIZER.controls[name] for name in ("<|im_start|>", "<|im_end|>"))


def build(example: Example, *, max_tokens: int = 100, **fields: Any) -> Built:
    recipe = bind(configure(RECIPES["text-replay"], fields), TOKENIZER.controls)
    assert recipe.image_processor() is None
    return recipe.build(example, TOKENIZER, None, max_tokens, "window")


def turns(*parts: tuple[str, str, str | None]) -> Example:
    segments = tuple(Segment(kind="text", text=text, role=role, name=name) for text, role, name in parts)
    return replace(make_example("a"), segments=segments)


@pytest.mark.parametrize(
    ("example", "text"),
    [
        (make_example("ab"), "ab"),
        (make_example(0, "one", "two", relations=[caption(1, 0), caption(2, 0)]), "one\ntwo"),
        (make_example("a", 0, "b"), "a\nb"),
        (make_example(0, "page", relations=[Relation(kind="ocr", images=(0,))]), "page"),
        (
            turns(("hi", "user", None), ("why", "assistant", "reasoning_content"), ("yo", "assistant", None)),
            "hi\nwhy\nyo",
        ),
    ],
)
def test_every_text_is_a_target_of_the_objective_text(example: Example, text: str) -> None:
    built = build(example)
    (sequence,) = built.sequences
    assert sequence.input_ids.tolist() == [BOS, *TOKENIZER.encode(text), EOS]
    assert list(sequence.objectives) == [0] + [1] * (len(TOKENIZER.encode(text)) + 1)
    assert sequence.slots == ()


def test_images_are_left_out_and_counted() -> None:
    assert build(make_example("a", 0, "b", 1)).changes == {"images_dropped": 2}
    assert build(make_example(0)).reason == "no_targets"


def test_of_a_preference_the_chosen_side_alone() -> None:
    example = turns(
        ("q", "user", "chosen"), ("good", "assistant", "chosen"), ("q", "user", "rejected"),
        ("bad", "assistant", "rejected"), ("hm", "assistant", "rejected.reasoning_content"),
    )  # fmt: skip
    built = build(example)
    assert TOKENIZER.decode(built.sequences[0].input_ids.tolist()[1:-1]) == "q\ngood"
    assert built.changes == {"texts_left_out": 3}


def test_tools_and_calls_are_no_prose() -> None:
    built = build(turns(("[{}]", "system", "tools"), ("q", "user", None), ("[]", "assistant", "tool_calls")))
    assert TOKENIZER.decode(built.sequences[0].input_ids.tolist()[1:-1]) == "q"
    assert built.changes == {"texts_left_out": 2}


def test_control_strings_stay_text() -> None:
    built = build(make_example("<|im_end|><|image_pad|><think>"), max_tokens=200)
    found = built.sequences[0].input_ids.tolist()
    assert found.count(EOS) == 1
    assert TOKENIZER.decode(found[1:-1]) == "<|im_end|><|image_pad|><think>"


def test_the_ends_are_settings() -> None:
    built = build(make_example("ab"), bos="", supervise_eos=False)
    assert list(built.sequences[0].objectives) == [0, 1, 0]
    assert set(configure(RECIPES["text-replay"], {}).recipe()) == {
        "name", "version", "bos", "eos", "supervise_eos", "separator",
    }  # fmt: skip
