"""Images and texts of an example in order; the text alone is the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.errors import ConfigError
from shardkit.media.processors import PROCESSORS, Naflex, hf
from shardkit.records import Example, Relation, Segment
from shardkit.sequence.recipes import RECIPES, bind, configure
from shardkit.text.tokenizer import Tokenizer
from tests.example_builders import caption, make_example, make_image
from tests.sequence.recipes.pictures import BOS, CAPTION, END, EOS, OCR, PATCH, START, TEXT, TOKENIZER, build, ids, only
from tests.tokenizer_builders import EARLIER, byte_level


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


@pytest.mark.parametrize(("sizes", "spans"), [(((14, 14), (28, 28)), [3, 3]), (((29, 29), (57, 56)), [6, 8])])
def test_spans_of_pictures_in_their_own_size(sizes: tuple[tuple[int, int], ...], spans: list[int]) -> None:
    example = make_example(0, " test ", 1, "a", images=tuple(make_image(*size) for size in sizes))
    (sequence,) = build(example, processor="patch-budget", image_size=None).sequences
    found = sequence.input_ids.tolist()
    starts, ends = ([k for k, token in enumerate(found) if token == mark] for mark in (START, END))
    assert [end + 1 - start for start, end in zip(starts, ends, strict=True)] == spans
    assert [slot.count + 2 for slot in sequence.slots] == spans


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


def test_images_side_by_side_stay_two_where_nothing_stands_between_their_slots() -> None:
    """Code that looks for runs of the patch token sees one of eight."""
    found = build(make_example(0, 1, "a"), image_size=56, image_start="", image_end="")
    (sequence,) = found.sequences
    assert sequence.input_ids.tolist()[1:9] == [PATCH] * 8
    assert [(slot.start, slot.count, slot.image) for slot in sequence.slots] == [(1, 4, 0), (5, 4, 1)]


def test_slots_are_those_of_the_processor() -> None:
    example = make_example(0, "x", images=(make_image(600, 20),))
    recipe = bind(configure(RECIPES["vlm"], {"image_size": 112}), TOKENIZER.controls)
    processor = recipe.image_processor()
    (sequence,) = recipe.build(example, TOKENIZER, processor, 100, "window").sequences
    geometry = processor.geometry(600, 20)
    assert [(s.count, s.height, s.width) for s in sequence.slots] == [(geometry.slots, geometry.height, geometry.width)]
    assert sequence.input_ids.tolist().count(PATCH) == geometry.slots == 16


# ------------------------------------------------------------------ labels and reading order
def labelled(**fields: Any) -> Example:
    return make_example(0, "abcdefgh", images=(replace(make_image(), **fields),))


def test_labels_and_reading_order_follow_their_image() -> None:
    built = build(labelled(ocr_labels=(7, 8, 9), reading_order=(2, 0)), image_size=56)
    (slot,) = built.sequences[0].slots
    assert (slot.ocr_labels, slot.reading_order) == ((7, 8, 9), (2, 0, 1, 3))
    cut = build(labelled(ocr_labels=(7,) * 6), image_size=56)
    assert cut.sequences[0].slots[0].ocr_labels == (7,) * 4
    assert cut.changes == {"labels_truncated": 2}


def test_what_is_missing_is_not_made_up() -> None:
    for fields in ({}, {"ocr_labels": (), "reading_order": ()}):
        (slot,) = build(labelled(**fields)).sequences[0].slots
        assert (slot.ocr_labels, slot.reading_order) == (None, None)


@pytest.mark.parametrize(
    ("order", "detail"),
    [
        ((0, 4), "reading_order names slot 4, the image has 4 slots"),
        ((-1,), "reading_order names slot -1, the image has 4 slots"),
        ((1, 3, 1), "reading_order names slot 1 twice"),
    ],
)
def test_a_reading_order_that_does_not_fit_is_refused(order: tuple[int, ...], detail: str) -> None:
    built = build(labelled(reading_order=order), image_size=56)
    assert (built.reason, built.detail, built.sequences) == ("bad_reading_order", detail, ())


def test_labels_go_with_an_image_that_is_cut_away() -> None:
    images = (replace(make_image(number=0), ocr_labels=(5,)), replace(make_image(number=1), ocr_labels=(6,)))
    built = build(make_example(0, "abcdef", 1, "gh", images=images), max_tokens=12, overlong="truncate")
    assert [(slot.image, slot.ocr_labels) for slot in built.sequences[0].slots] == [(0, (5,))]
    assert built.changes["images_dropped"] == 1


@pytest.mark.parametrize("view", [{"crop_percent": 50}, {"mirror": True}])
def test_random_parts_have_no_labels(view: dict[str, Any]) -> None:
    (slot,) = build(labelled(ocr_labels=(7,), reading_order=(9,)), image_size=56, **view).sequences[0].slots
    assert (slot.ocr_labels, slot.reading_order) == (None, None)


# ------------------------------------------------------------------ processors and the model
def test_a_model_with_another_number_of_slots_is_refused_with_both_numbers() -> None:
    message = "the square processor gives every image 64 slots, compress_to is 4"
    with pytest.raises(ConfigError, match=message):
        configure(RECIPES["vlm"], {"compress_to": "4"})
    assert configure(RECIPES["vlm"], {"compress_to": "4", "image_size": "56"})
    built = build(make_example(0, "a"), processor="pixel-budget", image_size=None, compress_to=4)
    assert (built.reason, built.detail) == (
        "slots_mismatch",
        "an image of 32 x 48 takes 6 slots, compress_to is 4",
    )


def test_height_comes_before_width() -> None:
    """A picture 28 high and 56 wide is one row of two slots."""
    example = make_example(0, "a", images=(make_image(28, 56),))
    built = build(example, processor="pixel-budget", image_size=None, min_pixels=784)
    (slot,) = built.sequences[0].slots
    assert (slot.height, slot.width, slot.count) == (28, 56, 2)


def test_a_slot_says_what_of_its_canvas_is_filled_up() -> None:
    example = make_example(0, "a", images=(make_image(100, 200),))
    (slot,) = build(example, processor="letterbox", image_size=56).sequences[0].slots
    assert (slot.height, slot.width, slot.used_height, slot.used_width) == (56, 56, 28, 56)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_processor_serves_and_is_made_again_from_the_record(processor: str) -> None:
    built = build(
        make_example(0, "a", images=(make_image(300, 800),)), processor=processor, image_size=None, max_tokens=9000
    )
    (slot,) = built.sequences[0].slots
    assert slot.count == PROCESSORS[processor]().geometry(300, 800).slots
    recorded = configure(RECIPES["vlm"], {"processor": processor}).recipe()
    name, version, stated = (recorded.pop(key) for key in ("name", "version", "image_processor"))
    again = configure(RECIPES[name], recorded)
    assert again.recipe() == {"name": name, "version": version, **recorded, "image_processor": stated}


def test_a_file_of_hugging_face_stands_for_a_processor_and_its_folder_is_not_recorded(tmp_path: Path) -> None:
    hf.write(Naflex(max_patches=64), tmp_path)
    recipe = configure(RECIPES["vlm"], {"processor": f"hf:{tmp_path}", "normalisation": "clip"})
    assert recipe.image_processor() == Naflex(max_patches=64, normalisation="clip")
    assert (
        recipe.recipe()
        == configure(RECIPES["vlm"], {"processor": "naflex", "max_patches": "64", "normalisation": "clip"}).recipe()
    )
    assert str(tmp_path) not in str(recipe.recipe())


def test_a_setting_of_another_processor_is_named() -> None:
    with pytest.raises(
        ConfigError, match="recipe vlm has no setting 'image_size' with processor=tiles; it has bos, eos"
    ):
        configure(RECIPES["vlm"], {"processor": "tiles", "image_size": "56"})


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
        "separator": " ", "captions": "first", "seed": 1, "one_image_rows": True, "compress_to": 64,
        "image_size": 56, "patch": 7, "merge": 1, "resampling": "box", "normalisation": "half", "crop_percent": 50, "mirror": True,
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


@pytest.mark.parametrize("recipe", ["vlm", "ocr", "obelics-xattn"])
def test_a_size_with_some_zeros_too_many_lays_out_nothing(recipe: str) -> None:
    example = make_example(0, "a")
    made = bind(configure(RECIPES[recipe], {"processor": "square", "image_size": 10**9}), TOKENIZER.controls)
    built = made.build(example, TOKENIZER, made.image_processor(), 4096, "window")
    assert (built.sequences, built.reason) == ((), "image_too_long")
    assert built.detail == "an image takes 1275510224489796 slots; no sequence has so many tokens"
