"""Preference pairs with images: both documents show the prompt's, and slots are found in each."""

from __future__ import annotations

import pytest

from tests.sequence.recipes.talks import EMPTY_THINK, IMAGE, TOKENIZER, Said, build, pair, shown, talk

PATCH = TOKENIZER.controls["<|image_pad|>"]
SIZE = {"image_size": 56}
ASKED: list[Said] = [("user", 0), ("user", "\nWhich?")]
PAIR = pair(
    [*ASKED, ("assistant", "A cat.")], [*ASKED, ("assistant", "A dog, "), ("assistant", 1), ("assistant", "or?")]
)


def test_each_side_shows_the_images_of_its_turns() -> None:
    (sequence,) = build("vlm-dpo", PAIR, **SIZE).sequences
    prompt = f"<|im_start|>user\n{IMAGE}\nWhich?<|im_end|>\n<|im_start|>assistant\n{EMPTY_THINK}"
    assert shown(sequence) == [
        (f"{prompt}A cat.<|im_end|>\n", "A cat.<|im_end|>\n"),
        (f"{prompt}A dog, {IMAGE}or?<|im_end|>\n", "A dog, or?<|im_end|>\n"),
    ]
    _, second = sequence.documents
    assert set(sequence.objectives[:second]) == {0, 5}
    assert set(sequence.objectives[second:]) == {0, 6}
    first, again, other = sequence.slots
    assert (first.start, again.start, first.image, again.image, other.image) == (5, second + 5, 0, 0, 1)
    ids = sequence.input_ids.tolist()
    places = [place for slot in sequence.slots for place in range(slot.start, slot.start + slot.count)]
    assert places == [place for place, token in enumerate(ids) if token == PATCH]


def test_a_pair_without_images_has_the_ids_of_dpo() -> None:
    example = pair([("user", "hi"), ("assistant", "yo")], [("user", "hi"), ("assistant", "no")])
    (ours,), (theirs,) = build("vlm-dpo", example).sequences, build("dpo", example).sequences
    assert (ours.input_ids.tolist(), ours.objectives, ours.documents) == (
        theirs.input_ids.tolist(),
        theirs.objectives,
        theirs.documents,
    )


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (pair([*ASKED, ("assistant", "a")], [("user", 1), ("user", "\nWhich?"), ("assistant", "b")]), "prompts_differ"),
        (pair([*ASKED, ("assistant", "a")], [("user", "\nWhich?"), ("user", 0), ("assistant", "b")]), "prompts_differ"),
        (pair([*ASKED, ("assistant", "a")], [*ASKED, ("assistant", "a")]), "same_answers"),
        (pair([*ASKED, ("assistant", "a")], [*ASKED, ("assistant", 0)]), "no_targets"),
        (talk(*ASKED, ("assistant", "a")), "no_pair"),
    ],
    ids=["another-image", "another-place", "same", "an-image-alone", "no-pair"],
)
def test_what_is_no_pair_to_learn_from_has_a_reason(example, reason: str) -> None:
    assert build("vlm-dpo", example, **SIZE).reason == reason


def test_dpo_leaves_images_out() -> None:
    assert build("dpo", PAIR).reason == "has_images"


def test_a_pair_that_is_cut_keeps_its_images_whole() -> None:
    (whole,) = build("vlm-dpo", PAIR, **SIZE).sequences
    assert build("vlm-dpo", PAIR, max_tokens=whole.num_tokens - 1, **SIZE).reason == "too_long"
    kept = 0
    for limit in range(8, whole.num_tokens):
        for sequence in build("vlm-dpo", PAIR, max_tokens=limit, overlong="truncate", **SIZE).sequences:
            kept += 1
            assert sequence.num_tokens <= limit
            assert sequence.input_ids.tolist().count(PATCH) == 4 * len(sequence.slots)
            assert all(sequence.input_ids[slot.start + slot.count - 1] == PATCH for slot in sequence.slots)
    assert kept > 3
