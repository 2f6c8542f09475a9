"""Several captions of one image, and one image a row."""

from __future__ import annotations

import pytest

from shardkit.records import Example
from tests.example_builders import caption, make_example
from tests.sequence.recipes.pictures import BOS, EOS, build, texts

TWO = make_example(0, "one", "two", "three", relations=[caption(1, 0), caption(2, 0), caption(3, 0)])


def test_all_captions_are_a_sequence_each() -> None:
    built = build(TWO, captions="all")
    assert texts(built) == ["one", "two", "three"]
    assert [sequence.window for sequence in built.sequences] == [0, 1, 2]
    assert [len(sequence.slots) for sequence in built.sequences] == [1, 1, 1]
    assert built.changes == {}


def test_the_first_or_all_joined() -> None:
    assert texts(build(TWO, captions="first")) == ["one"]
    assert texts(build(TWO, captions="joined")) == ["one\ntwo\nthree"]


def test_no_text_is_a_target_twice_where_images_have_captions_of_their_own() -> None:
    relations = [caption(1, 0), caption(2, 0), caption(4, 1)]
    built = build(make_example(0, "a1", "a2", 1, "b1", "rest", relations=relations), captions="all")
    assert texts(built) == ["a1b1\nrest", "a2"]
    assert [[slot.image for slot in sequence.slots] for sequence in built.sequences] == [[0, 1], [0]]


def test_one_caption_a_pass_in_an_order_that_is_drawn() -> None:
    built = build(TWO, captions="one")
    assert [(s.alternative, s.alternatives, s.window) for s in built.sequences] == [(0, 3, 0), (1, 3, 1), (2, 3, 2)]
    assert sorted(texts(built)) == ["one", "three", "two"]
    assert texts(build(TWO, captions="one")) == texts(built)
    orders = {tuple(texts(build(TWO, captions="one", seed=seed))) for seed in range(50)}
    assert len(orders) == 6


def test_an_image_with_fewer_captions_begins_anew() -> None:
    relations = [caption(1, 0), caption(2, 0), caption(4, 1), caption(5, 1), caption(6, 1)]
    built = build(make_example(0, "a1", "a2", 1, "b1", "b2", "b3", relations=relations), captions="one")
    found = [(text[:2], text[2:]) for text in texts(built)]
    assert sorted(b for _, b in found) == ["b1", "b2", "b3"]
    assert found[0][0] == found[2][0] != found[1][0]
    assert {a for a, _ in found} == {"a1", "a2"}


def test_windows_of_one_alternative_share_its_number() -> None:
    relations = [caption(1, 0), caption(2, 0)]
    built = build(make_example(0, "abcdefgh", "ijklmnop", relations=relations), captions="one", max_tokens=8)
    assert [(s.alternative, s.window) for s in built.sequences] == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert {s.alternatives for s in built.sequences} == {2}


@pytest.mark.parametrize("example", [make_example(0, "a", relations=[caption(1, 0)]), make_example("a", 0, "b")])
def test_without_a_choice_there_is_one_alternative(example: Example) -> None:
    (sequence,) = build(example, captions="one").sequences
    assert (sequence.alternative, sequence.alternatives) == (0, 1)


# ------------------------------------------------------------------ one image a row
def test_rows_of_one_image_each() -> None:
    built = build(make_example("t", 0, "a", 1, 2, "b", 0, "c"), one_image_rows=True)
    assert [(texts(built)[k], [s.image for s in q.slots]) for k, q in enumerate(built.sequences)] == [
        ("ta", [0]),
        ("b", [2]),
        ("c", [0]),
    ]
    assert all(s.input_ids[0] == BOS and s.input_ids[-1] == EOS for s in built.sequences)
    assert built.changes == {"images_dropped": 1}  # image 1 has no text of its own


def test_rows_of_one_image_and_captions_by_choice() -> None:
    relations = [caption(1, 0), caption(2, 0), caption(4, 1)]
    example = make_example(0, "a1", "a2", 1, "b", relations=relations)
    built = build(example, one_image_rows=True, captions="all")
    assert texts(built) == ["a1", "b", "a2"]
    built = build(example, one_image_rows=True, captions="one")
    assert [(s.alternative, len(s.slots)) for s in built.sequences] == [(0, 1), (0, 1), (1, 1), (1, 1)]
    assert [text for text in texts(built) if text == "b"] == ["b", "b"]


def test_a_text_without_images_is_one_row() -> None:
    assert texts(build(make_example("a", "b"), one_image_rows=True)) == ["a\nb"]
