"""Text alone, every token of it a target exactly once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.errors import SourceError
from shardkit.records import Example
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example
from tests.tokenizer_builders import byte_level

TOKENIZER = Tokenizer(byte_level())
BOS, EOS = TOKENIZER.controls["<|im_start|>"], TOKENIZER.controls["<|im_end|>"]


def build(example: Example, *, max_tokens: int = 340, overlong: str = "window", **fields: Any) -> Built:
    recipe = bind(configure(RECIPES["pretrain"], fields), TOKENIZER.controls)
    return recipe.build(example, TOKENIZER, recipe.image_processor(), max_tokens, overlong)


def test_text_between_bos_and_eos_is_the_target() -> None:
    (sequence,) = build(make_example("hello")).sequences
    assert sequence.input_ids.tolist() == [BOS, *TOKENIZER.encode("hello"), EOS]
    assert list(sequence.objectives) == [0, 1, 1, 1, 1, 1, 1]
    (sequence,) = build(make_example("hello"), supervise_eos=False).sequences
    assert list(sequence.objectives) == [0, 1, 1, 1, 1, 1, 0]


def test_images_are_left_out_and_counted() -> None:
    built = build(make_example("a", 0, "b", 1, relations=[caption(2, 0)]))
    (sequence,) = built.sequences
    assert sequence.input_ids.tolist() == [BOS, *TOKENIZER.encode("a\nb"), EOS]
    assert (sequence.slots, set(sequence.objectives[1:])) == ((), {1})
    assert built.changes == {"images_dropped": 2}


def test_images_alone_are_no_text() -> None:
    assert build(make_example(0)).reason == "no_targets"


def test_windows_share_one_token() -> None:
    built = build(make_example("abcdef"), max_tokens=4)
    a = TOKENIZER.encode("abcdef")
    assert [s.input_ids.tolist() for s in built.sequences] == [[BOS, *a[:3]], [a[2], *a[3:6]], [a[5], EOS]]
    assert [list(s.objectives) for s in built.sequences] == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 1]]
    assert [s.window for s in built.sequences] == [0, 1, 2]


@given(st.text(max_size=60), st.integers(2, 20))
def test_each_pair_of_neighbours_is_a_target_once(text: str, max_tokens: int) -> None:
    built = build(make_example(text), max_tokens=max_tokens)
    whole = [BOS, *TOKENIZER.encode(text), EOS]
    pairs = [
        (before, token)
        for sequence in built.sequences
        for before, token, objective in zip(
            sequence.input_ids.tolist(), sequence.input_ids.tolist()[1:], sequence.objectives[1:], strict=False
        )
        if objective
    ]
    assert pairs == (list(pairwise(whole)) if text.strip() else [])
    assert all(sequence.num_tokens <= max_tokens for sequence in built.sequences)


def test_drop_and_error_leave_nothing_behind() -> None:
    example = make_example("abcdef")
    assert build(example, max_tokens=8, overlong="error").reason == ""
    built = build(example, max_tokens=7, overlong="drop")
    assert (built.reason, built.detail) == ("too_long", "8 tokens, --max-tokens is 7")
    with pytest.raises(SourceError, match="the example has 8 tokens, --max-tokens is 7") as caught:
        build(example, max_tokens=7, overlong="error")
    assert caught.value.where == f"example {example.example_id}"
    assert "--overlong window" in caught.value.hint


def test_all_fields_enter_the_fingerprint() -> None:
    plain = configure(RECIPES["pretrain"], {}).recipe()
    changed = {"bos": "x", "eos": "x", "supervise_eos": False, "separator": " "}
    assert set(plain) == {"name", "version", *changed}
    assert all(configure(RECIPES["pretrain"], {key: value}).recipe() != plain for key, value in changed.items())
