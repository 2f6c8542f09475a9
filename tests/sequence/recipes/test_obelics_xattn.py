"""One token an image, tiles beside the text, no image that no text follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.records import Example, Segment
from shardkit.sequence.intervals import intervals
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example, make_image
from tests.tokenizer_builders import byte_level

TOKENIZER = Tokenizer(byte_level())
BOS, EOS, IMAGE = (TOKENIZER.controls[name] for name in ("<|im_start|>", "<|im_end|>", "<|image_pad|>"))
TEXT = 1


def build(example: Example, *, max_tokens: int = 100, overlong: str = "window", **fields: Any) -> Built:
    recipe = bind(configure(RECIPES["obelics-xattn"], fields), TOKENIZER.controls)
    return recipe.build(example, TOKENIZER, recipe.image_processor(), max_tokens, overlong)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def only(built: Built) -> list[int]:
    (sequence,) = built.sequences
    found: list[int] = sequence.input_ids.tolist()
    return found


def test_an_image_is_one_token_and_never_a_target() -> None:
    built = build(make_example(0, "ab", 1, "c"), supervise_eos=False)
    (sequence,) = built.sequences
    assert only(built) == [BOS, IMAGE, *ids("ab"), IMAGE, *ids("c"), EOS]
    found = sequence.input_ids.tolist()
    labels = [t if o else -100 for t, o in zip(found, sequence.objectives, strict=True)][1:]
    assert labels == [-100, *ids("ab"), -100, *ids("c"), -100]


def test_the_slot_is_one_token_wide_and_its_canvas_tiles() -> None:
    built = build(make_example(0, "a", images=(make_image(480, 640),)))
    (slot,) = built.sequences[0].slots
    assert (slot.start, slot.count, slot.image) == (1, 1, 0)
    assert (slot.height, slot.width, slot.used_height, slot.used_width) == (896, 896, 480, 640)


def test_images_behind_the_last_text_are_left_out_and_counted() -> None:
    built = build(make_example(0, "a", 1, 2))
    assert only(built) == [BOS, IMAGE, *ids("a"), EOS]
    assert built.changes == {"images_trailing": 2, "images_dropped": 2}


def test_a_picture_shown_again_at_the_end_is_still_decoded_for_its_first_place() -> None:
    built = build(make_example(0, "a", 0))
    assert [slot.image for slot in built.sequences[0].slots] == [0]
    assert built.changes == {"images_trailing": 1}


def test_a_document_that_ends_in_pictures_only_is_no_text() -> None:
    assert build(make_example(0, 1)).reason == "no_targets"


def test_white_space_alone_between_images_is_left_out() -> None:
    example = make_example(0, "\n", 1, "ab", 2, " \n ")
    built = build(example)
    assert only(built) == [BOS, IMAGE, IMAGE, *ids("ab"), EOS]
    starts = [slot.start for slot in built.sequences[0].slots]
    assert intervals(starts, 6) == [(1, 6), (2, 6)]
    kept = build(example, join_blank=False)
    assert only(kept) == [BOS, IMAGE, *ids("\n"), IMAGE, *ids("ab"), IMAGE, *ids(" \n "), EOS]
    assert intervals([slot.start for slot in kept.sequences[0].slots], 11)[0] == (1, 3)


def test_white_space_between_texts_and_before_an_image_stays() -> None:
    assert only(build(make_example("a", "\n", 0, "b"), separator="")) == [BOS, *ids("a\n"), IMAGE, *ids("b"), EOS]
    assert only(build(make_example(0, " ", "b"), separator="")) == [BOS, IMAGE, *ids(" b"), EOS]
    assert only(build(make_example(" ", 0, "b"))) == [BOS, *ids(" "), IMAGE, *ids("b"), EOS]


def test_a_picture_whose_text_is_cut_away_is_not_decoded() -> None:
    built = build(make_example(0, "abc", 1, 2, "def"), max_tokens=6, overlong="truncate")
    assert only(built) == [BOS, IMAGE, *ids("abc")]
    assert built.changes == {
        "examples_truncated": 1, "tokens_truncated": 6, "images_trailing": 1, "images_dropped": 2,
    }  # fmt: skip


def test_a_window_begins_with_the_images_of_its_text() -> None:
    built = build(make_example(0, "abc", 1, 2, "def"), max_tokens=7)
    assert [s.input_ids.tolist() for s in built.sequences] == [
        [BOS, IMAGE, *ids("abc")],
        [IMAGE, IMAGE, *ids("def"), EOS],
    ]
    assert [[slot.image for slot in s.slots] for s in built.sequences] == [[0], [1, 2]]


def test_a_picture_that_leaves_no_room_is_refused() -> None:
    assert build(make_example(0, "a"), max_tokens=2).reason == "image_too_long"


def test_dialogues_are_for_other_recipes() -> None:
    example = replace(make_example("a"), segments=(Segment(kind="text", text="a", role="user"),))
    assert build(example).reason == "has_roles"


@pytest.mark.parametrize("text", ["<|image_pad|>", "<image>", "a <|image_pad|> b"])
def test_a_placeholder_in_data_is_no_image(text: str) -> None:
    found = only(build(make_example(0, text), max_tokens=200))
    assert found.count(IMAGE) == 1


def test_a_text_alone_is_an_ordinary_sequence() -> None:
    built = build(make_example("ab"))
    assert (only(built), list(built.sequences[0].objectives)) == ([BOS, *ids("ab"), EOS], [0, TEXT, TEXT, TEXT])


PARTS = st.lists(
    st.one_of(st.integers(0, 3), st.sampled_from(["", " ", "\n", "ab", "a b <|image_pad|>", "xyz"])), max_size=9
)


@given(PARTS, st.integers(3, 12), st.sampled_from(["window", "truncate"]), st.booleans())
def test_every_image_has_a_target_behind_it_and_each_text_token_is_one_once(
    parts: list[str | int], max_tokens: int, overlong: str, join_blank: bool
) -> None:
    example = make_example(*parts, images=tuple(make_image(number=number) for number in range(4)))
    built = build(example, max_tokens=max_tokens, overlong=overlong, join_blank=join_blank)
    whole = build(example, max_tokens=1000, join_blank=join_blank)
    targets = []
    for sequence in built.sequences:
        found = sequence.input_ids.tolist()
        assert len(found) <= max_tokens
        assert [place for place, token in enumerate(found) if token == IMAGE] == [slot.start for slot in sequence.slots]
        assert all(any(sequence.objectives[slot.start :]) for slot in sequence.slots)
        targets += [token for token, objective in zip(found, sequence.objectives, strict=True) if objective]
    for one in whole.sequences:
        every = [token for token, objective in zip(one.input_ids.tolist(), one.objectives, strict=True) if objective]
        assert targets == (every if overlong == "window" else every[: len(targets)])
    shown = {slot.image for sequence in built.sequences for slot in sequence.slots}
    assert built.reason or built.changes.get("images_dropped", 0) == 4 - len(shown)
