"""A page, what is written on it, and what its slots carry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import Geometry, Letterbox, PatchBudget, Square, Tiles
from shardkit.records import Example, LayoutItem, Segment
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.sequence.recipes.heads import completed_order, cut_labels
from shardkit.sequence.recipes.page import box_text, page_lines
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import make_example, make_image
from tests.tokenizer_builders import byte_level

TOKENIZER = Tokenizer(byte_level())
BOS, EOS, START, PATCH, END = (
    TOKENIZER.controls[name]
    for name in ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
)
OCR = 3


def build(example: Example, *, max_tokens: int = 300, overlong: str = "window", **fields: Any) -> Built:
    settings = {"processor": "square", "image_size": 56, **fields}
    recipe = bind(configure(RECIPES["ocr"], settings), TOKENIZER.controls)
    return recipe.build(example, TOKENIZER, recipe.image_processor(), max_tokens, overlong)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def line(text: str | None, box: tuple[float, ...] = (), **fields: Any) -> LayoutItem:
    return LayoutItem(**{"level": "line", "text": text, "polygon": box, **fields})


def page(*layout: LayoutItem, text: str = "page", height: int = 400, width: int = 200, **fields: Any) -> Example:
    image = replace(make_image(height, width), layout=layout or None, **fields)
    return make_example(0, *([text] if text else []), images=(image,))


def text_of(built: Built) -> str:
    (sequence,) = built.sequences
    found: list[int] = sequence.input_ids.tolist()
    return TOKENIZER.decode(found[found.index(END) + 1 : -1])


# ------------------------------------------------------------------ the page
def test_a_page_becomes_image_text_and_end() -> None:
    built = build(page(text="ab"))
    (sequence,) = built.sequences
    assert sequence.input_ids.tolist() == [BOS, START, *[PATCH] * 4, END, *ids("ab"), EOS]
    assert list(sequence.objectives) == [0] * 7 + [OCR] * 3
    assert built.changes == {}


def test_several_pages_and_text_before_the_first() -> None:
    (sequence,) = build(make_example("head", 0, "a", "b", 1, "c")).sequences
    span = [START, *[PATCH] * 4, END]
    assert sequence.input_ids.tolist() == [BOS, *span, *ids("a\nb"), *span, *ids("c"), EOS]


def test_an_unsupervised_text_is_no_target() -> None:
    example = page(text="ab")
    silent = replace(example, segments=(example.segments[0], replace(example.segments[1], supervised=False)))
    assert build(silent).reason == "no_targets"


def test_what_is_no_page_is_left_out() -> None:
    assert build(make_example("a")).reason == "no_image"
    assert build(page(text="")).reason == "no_targets"
    example = replace(make_example("a"), segments=(Segment(kind="text", text="a", role="user"),))
    assert build(example).reason == "has_roles"


def test_a_page_with_labels_and_no_text_stays() -> None:
    built = build(page(text="", ocr_labels=(7, 8)))
    (sequence,) = built.sequences
    assert sequence.input_ids.tolist() == [BOS, START, *[PATCH] * 4, END, EOS]
    assert (sequence.num_supervised, sequence.slots[0].ocr_labels) == (1, (7, 8))
    assert build(page(text="", ocr_labels=(7, 8)), supervise_eos=False).reason == "no_targets"


# ------------------------------------------------------------------ labels
def test_labels_as_they_are_given() -> None:
    (slot,) = build(page(ocr_labels=(12, 47))).sequences[0].slots
    assert slot.ocr_labels == (12, 47)


def test_labels_made_of_the_lines() -> None:
    built = build(page(line("ab", order=1), line("c", order=0)), labels="text")
    assert built.sequences[0].slots[0].ocr_labels == tuple(ids("cab"))
    built = build(page(text="ab\ncde"), labels="text")
    assert built.sequences[0].slots[0].ocr_labels == tuple(ids("abcd"))
    assert built.changes == {"labels_truncated": 1}


def test_given_labels_are_not_used_where_others_are_asked_for() -> None:
    assert build(page(text="x", ocr_labels=(9, 9)), labels="text").sequences[0].slots[0].ocr_labels == tuple(ids("x"))
    assert build(page(ocr_labels=(9, 9)), labels="none").sequences[0].slots[0].ocr_labels is None


def test_labels_are_at_most_as_many_as_slots() -> None:
    assert cut_labels((1, 2, 3), 2) == ((1, 2), 1)
    assert cut_labels((1,), 2) == ((1,), 0)
    assert cut_labels((), 2) == cut_labels(None, 2) == (None, 0)


# ------------------------------------------------------------------ reading order
@pytest.mark.parametrize(
    ("order", "completed"),
    [
        ((3, 1, 0, 2), (3, 1, 0, 2, 4, 5)),
        ((5, 0), (5, 0, 1, 2, 3, 4)),
        ((), None),
        (None, None),
        ((5, 4, 3, 2, 1, 0), (5, 4, 3, 2, 1, 0)),
    ],
)
def test_missing_slots_follow_in_ascending_order(order: Any, completed: Any) -> None:
    assert completed_order(order, 6) == completed


def test_a_reading_order_that_does_not_fit_is_refused() -> None:
    built = build(page(reading_order=(0, 4)))
    assert (built.reason, built.detail) == ("bad_reading_order", "reading_order names slot 4, the image has 4 slots")
    assert build(page(reading_order=(0, 0))).reason == "bad_reading_order"


# ------------------------------------------------------------------ layout
def test_lines_in_reading_order() -> None:
    built = build(page(line("b", order=1), line("a", order=0), line(None, order=2)), text="layout")
    assert text_of(built) == "a\nb"


def test_the_text_of_a_line_is_that_of_its_words() -> None:
    layout = (
        LayoutItem(level="region", polygon=(0, 0, 9, 9), order=0),
        line(None, parent=0, order=0),
        LayoutItem(level="word", text="two", parent=1, order=1),
        LayoutItem(level="word", text="one", parent=1, order=0),
        LayoutItem(level="region", text="alone", order=1),
    )
    assert [one.text for one in page_lines(layout)] == ["one two", "alone"]


def test_regions_of_words_and_words_of_nothing_are_lines() -> None:
    layout = (
        LayoutItem(level="region", order=1, polygon=(0, 0, 1, 1)),
        LayoutItem(level="word", text="b", parent=0),
        LayoutItem(level="region", order=0),
        LayoutItem(level="word", text="a", parent=2, polygon=(3, 4, 7, 4, 7, 9)),
        LayoutItem(level="word", text="z", parent=2, polygon=(8, 4, 9, 5)),
    )
    assert [(one.text, one.box) for one in page_lines(layout)] == [("a z", (3, 4, 9, 9)), ("b", (0, 0, 1, 1))]
    assert [one.text for one in page_lines((LayoutItem(level="word", text="w"),))] == ["w"]
    assert page_lines(None) == []


def test_a_page_without_layout_keeps_its_text() -> None:
    built = build(page(text="as it is"), text="layout")
    assert text_of(built) == "as it is"
    assert built.changes == {"pages_without_layout": 1}


# ------------------------------------------------------------------ boxes
def test_a_box_is_written_in_thousandths_half_to_even() -> None:
    geometry = Geometry(height=56, width=56, slots=4)
    assert box_text((10, 20, 100, 200), make_image(400, 200), geometry) == "<bbox_050_050_500_500>"


def test_a_box_outside_ends_at_the_border() -> None:
    geometry = Geometry(height=56, width=56, slots=4)
    assert box_text((-5, -0.5, 300, 401), make_image(400, 200), geometry) == "<bbox_000_000_999_999>"


@pytest.mark.parametrize(
    ("processor", "text"),
    [
        (Square(image_size=56), "<bbox_000_000_500_500>"),
        (Letterbox(image_size=56), "<bbox_000_000_250_500>"),  # 56 x 28 of 56 x 56
        (PatchBudget(), "<bbox_000_000_446_476>"),  # 400 x 200 of 420 x 224
        (Tiles(), "<bbox_000_000_223_446>"),  # 400 x 200 grown to 448 x 224 of 448 x 448, see below
    ],
)
def test_a_box_follows_what_is_done_to_the_picture(processor: Any, text: str) -> None:
    image = make_image(400, 200)
    geometry = processor.geometry(400, 200)
    found = box_text((0, 0, 100, 200), image, geometry)
    shown_height, shown_width = geometry.shown
    x, y = 100 / 200 * shown_width / geometry.width, 200 / 400 * shown_height / geometry.height
    assert found == f"<bbox_000_000_{round(x * 999):03}_{round(y * 999):03}>"
    if not isinstance(processor, Tiles):
        assert found == text


def test_boxes_stand_before_their_lines_as_ordinary_text() -> None:
    built = build(page(line("ab", (10, 20, 100, 200)), line("c")), boxes=True)
    assert text_of(built) == "<bbox_050_050_500_500>ab\nc"
    assert set(ids("<bbox_050_050_500_500>")).isdisjoint(TOKENIZER.controls.values())
    assert built.sequences[0].num_supervised == len(ids("<bbox_050_050_500_500>ab\nc")) + 1


# ------------------------------------------------------------------ settings
@pytest.mark.parametrize("field", ["text", "labels"])
def test_an_unknown_choice_is_named(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field}='other' is none of"):
        configure(RECIPES["ocr"], {field: "other"})


@pytest.mark.parametrize("view", [{"crop_percent": "50"}, {"mirror": "true"}])
def test_a_page_is_shown_whole(view: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="a page in random parts or mirrored"):
        configure(RECIPES["ocr"], view)


def test_a_page_that_is_too_long_is_windowed_and_shown_once() -> None:
    built = build(page(text="abcdefghij"), max_tokens=10)
    assert [len(s.slots) for s in built.sequences] == [1, 0]
    assert built.changes == {"examples_windowed": 1, "windows_without_page": 1}
    assert sum(s.num_supervised for s in built.sequences) == 11
    assert build(page(), max_tokens=7).reason == "image_too_long"
