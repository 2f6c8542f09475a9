"""Images and texts of an example in order; the text alone is the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.errors import ConfigError
from shardkit.records import Example, Relation, Segment
from shardkit.sequence.recipes import RECIPES, Built, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example, make_image
from tests.tokenizer_builders import EARLIER, byte_level

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
    recipe = bind(configure(RECIPES["vlm"], {"image_size": 28, **fields}), tokenizer.controls)
    return recipe.build(example, tokenizer, recipe.image_processor(), max_tokens, overlong)


def only(built: Built) -> tuple[list[int], list[int]]:
    """Ids and objectives of the one sequence."""
    (sequence,) = built.sequences
    return sequence.input_ids.tolist(), list(sequence.objectives)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def test_a_caption_becomes_image_text_and_end() -> None:
    built = build(make_example(0, "cat", relations=[caption(1, 0)]), image_size=56)
    assert only(built) == (
        [BOS, START, *[PATCH] * 4, END, *ids("cat"), EOS],
        [0, 0, 0, 0, 0, 0, 0, *[CAPTION] * 3, CAPTION],
    )
    (slot,) = built.sequences[0].slots
    assert (slot.start, slot.count, slot.image, slot.height, slot.width) == (2, 4, 0, 56, 56)
    assert built.changes == {}


@pytest.mark.parametrize(("image_size", "span"), [(14, 3), (28, 3), (56, 6), (112, 18), (224, 66)])
def test_a_span_is_two_longer_than_its_slots(image_size: int, span: int) -> None:
    found, _ = only(build(make_example(0, " test ", 0), image_size=image_size, max_tokens=200))
    assert len(found) == 1 + span + 6 + span + 1
    assert found.count(PATCH) == 2 * (span - 2)


def test_targets_are_those_of_the_shifted_labels() -> None:
    # One token an image, none around it, and no target at the end.
    example = make_example(0, "ab", 1, "c")
    found, objectives = only(build(example, image_start="", image_end="", supervise_eos=False))
    a, b, c = ids("abc")
    assert found == [BOS, PATCH, a, b, PATCH, c, EOS]
    labels = [token if objective else -100 for token, objective in zip(found, objectives, strict=True)][1:]
    assert labels == [-100, a, b, -100, c, -100]


def test_the_objective_is_that_of_the_relation() -> None:
    example = make_example(
        "A",
        0,
        "B",
        1,
        "C",
        relations=[
            caption(2, 0),
            Relation(kind="ocr", images=(1,), segments=(4,)),
            Relation(kind="interleaved"),
        ],
    )
    _, objectives = only(build(example))
    assert objectives == [0, TEXT, *[0] * 3, CAPTION, *[0] * 3, OCR, OCR]


def test_a_relation_without_segments_covers_all_texts() -> None:
    _, objectives = only(build(make_example(0, "page", relations=[Relation(kind="ocr", images=(0,))])))
    assert objectives == [0, 0, 0, 0, *[OCR] * 4, OCR]


def test_an_unsupervised_text_is_no_target() -> None:
    example = make_example("ask", 0, "say")
    prompt = replace(example.segments[0], supervised=False)
    _, objectives = only(build(replace(example, segments=(prompt, *example.segments[1:]))))
    assert objectives == [0, 0, 0, 0, 0, 0, 0, *[TEXT] * 4]


def test_a_text_alone_is_an_ordinary_sequence() -> None:
    built = build(make_example("hello"))
    assert only(built) == ([BOS, *ids("hello"), EOS], [0, *[TEXT] * 6])
    assert built.sequences[0].slots == ()


def test_without_bos_the_first_text_token_follows_nothing() -> None:
    assert only(build(make_example("ab"), bos="", eos="")) == (ids("ab"), [0, TEXT])


def test_texts_side_by_side_are_kept_apart() -> None:
    found, objectives = only(build(make_example("a", "b", 0, "c")))
    assert found == [BOS, *ids("a\nb"), START, PATCH, END, *ids("c"), EOS]
    assert objectives == [0, TEXT, TEXT, TEXT, 0, 0, 0, TEXT, TEXT]
    assert only(build(make_example("a", "b"), separator=""))[0] == [BOS, *ids("ab"), EOS]


def test_one_image_shown_twice_has_two_slots() -> None:
    slots = build(make_example(0, "a", 0, "b")).sequences[0].slots
    assert [(slot.start, slot.image) for slot in slots] == [(2, 0), (6, 0)]


def test_slots_are_those_of_the_processor() -> None:
    example = make_example(0, "x", images=(make_image(600, 20),))
    recipe = bind(configure(RECIPES["vlm"], {"image_size": 112}), TOKENIZER.controls)
    processor = recipe.image_processor()
    (sequence,) = recipe.build(example, TOKENIZER, processor, 100, "window").sequences
    geometry = processor.geometry(600, 20)
    assert [(s.count, s.height, s.width) for s in sequence.slots] == [(geometry.slots, geometry.height, geometry.width)]
    assert sequence.input_ids.tolist().count(PATCH) == geometry.slots == 16


# ------------------------------------------------------------------ captions
TWO = make_example(0, "one", "two", "three", relations=[caption(1, 0), caption(2, 0), caption(3, 0)])


def texts(built: Built) -> list[str]:
    return [TOKENIZER.decode([i for i in s.input_ids.tolist() if i >= 8]) for s in built.sequences]


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


# ------------------------------------------------------------------ too long
def test_windows_share_one_token_and_divide_no_image() -> None:
    built = build(make_example("abcdef", 0, "gh"), max_tokens=9)
    a = ids("abcdef")
    assert [s.input_ids.tolist() for s in built.sequences] == [[BOS, *a], [START, PATCH, END, *ids("gh"), EOS]]
    assert [s.num_supervised for s in built.sequences] == [6, 3]
    assert [(slot.start, slot.count) for s in built.sequences for slot in s.slots] == [(1, 1)]
    assert built.changes == {"examples_windowed": 1}


def test_a_truncated_example_ends_before_the_image_and_without_eos() -> None:
    built = build(make_example("abcdef", 0, "gh"), max_tokens=9, overlong="truncate")
    assert only(built) == ([BOS, *ids("abcdef")], [0, *[TEXT] * 6])
    assert built.changes == {"examples_truncated": 1, "tokens_truncated": 6, "images_dropped": 1}


def test_an_image_that_leaves_no_room_for_a_target_is_too_long() -> None:
    example = make_example(0, "ab")
    assert build(example, max_tokens=5).reason == ""
    for overlong in ("window", "truncate", "drop", "error"):
        built = build(example, max_tokens=4, overlong=overlong)
        assert (built.reason, built.sequences) == ("image_too_long", ())
    assert built.detail == "an image takes 3 tokens; 4 leave room for 2 beside bos and a target"


def test_an_image_before_the_cut_with_no_text_left_is_no_target() -> None:
    built = build(make_example(0, 1, "ab"), max_tokens=6, overlong="truncate")
    assert built.reason == "no_targets"


@given(st.lists(st.one_of(st.integers(0, 3), st.text("ab <|image_pad|>", max_size=12)), max_size=8), st.integers(5, 30))
def test_slots_are_whole_and_each_text_token_is_a_target_once(parts: list[str | int], max_tokens: int) -> None:
    example = make_example(*parts, images=tuple(make_image(number=number) for number in range(4)))
    built = build(example, max_tokens=max_tokens)
    (whole,) = build(example, max_tokens=1000).sequences or (None,)
    targets = []
    for sequence in built.sequences:
        found = sequence.input_ids.tolist()
        assert len(found) <= max_tokens
        places = [place for place, token in enumerate(found) if token == PATCH]
        assert places == [slot.start + n for slot in sequence.slots for n in range(slot.count)]
        assert len(places) == sum(slot.count for slot in sequence.slots)
        targets += [token for token, objective in zip(found, sequence.objectives, strict=True) if objective]
    if whole is not None:
        ids_and_objectives = zip(whole.input_ids.tolist(), whole.objectives, strict=True)
        assert targets == [token for token, objective in ids_and_objectives if objective]
        shown = [slot.image for sequence in built.sequences for slot in sequence.slots]
        assert built.changes.get("images_dropped", 0) == 4 - len(set(shown))


# ------------------------------------------------------------------ left out
@pytest.mark.parametrize(
    "example",
    [
        make_example(0),
        make_example(""),
        make_example(0, ""),
        replace(make_example("a"), segments=(Segment(kind="text", text="a", supervised=False),)),
    ],
)
def test_without_a_supervised_text_there_is_nothing_to_learn(example: Example) -> None:
    assert build(example).reason == "no_targets"


@pytest.mark.parametrize("part", [{"role": "user"}, {"name": "chosen"}])
def test_dialogues_and_preferences_are_for_other_recipes(part: dict[str, str]) -> None:
    example = replace(make_example("a"), segments=(Segment(kind="text", text="a", **part),))
    assert build(example).reason == "has_roles"


# ------------------------------------------------------------------ tokens
def test_a_placeholder_in_data_is_no_slot() -> None:
    tokenizer = Tokenizer(byte_level(EARLIER))
    built = build(make_example(0, "see <image_patch>", 0), tokenizer=tokenizer, image_size=56)
    patch = tokenizer.controls["<image_patch>"]
    assert built.sequences[0].input_ids.tolist().count(patch) == 8 == sum(s.count for s in built.sequences[0].slots)
    assert "see <image_patch>" in tokenizer.decode(built.sequences[0].input_ids.tolist())


def test_all_fields_enter_the_fingerprint() -> None:
    plain = configure(RECIPES["vlm"], {})
    changed = {
        "bos": "x", "eos": "x", "image_start": "x", "image_patch": "x", "image_end": "x", "supervise_eos": False,
        "separator": " ", "captions": "first", "image_size": 56, "patch": 7, "merge": 1,
    }  # fmt: skip
    fields = set(plain.recipe()) - {"name", "version", "image_processor", "processor"}
    assert fields == set(changed)
    described = [configure(RECIPES["vlm"], {key: value}).recipe() for key, value in changed.items()]
    assert all(one != plain.recipe() for one in described)
    assert plain.recipe()["image_processor"] == plain.image_processor().recipe()


@pytest.mark.parametrize("field", ["captions", "processor"])
def test_an_unknown_choice_is_named(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field}='other' is none of"):
        configure(RECIPES["vlm"], {field: "other"})
