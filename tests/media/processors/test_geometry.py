"""Slot counts: pinned values, and the closed form they must equal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.media.processors import image_patch_count

SIZES = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("width", "height", "slots"),
    [
        (1, 1, 1),
        (14, 14, 1),
        (28, 28, 1),
        (56, 56, 4),
        (57, 56, 6),
        (29, 29, 4),
        (112, 112, 16),
        (224, 224, 64),
        (336, 336, 144),
        (448, 448, 256),
        (640, 480, 414),
        (1024, 768, 1036),
        (768, 1024, 1036),
        (2480, 3508, 11214),
        (15000, 10, 536),
    ],
)
def test_the_golden_counts(width, height, slots):
    assert image_patch_count(width, height) == slots


@given(SIZES, SIZES)
def test_border_patches_are_filled_up(width, height):
    assert image_patch_count(width, height) == -(-width // 28) * -(-height // 28)


@given(SIZES, SIZES, st.integers(1, 40), st.integers(1, 4))
def test_a_larger_picture_never_has_fewer_slots(width, height, patch, merge):
    slots = image_patch_count(width, height, patch, merge)

    assert slots >= 1
    assert image_patch_count(width + 1, height, patch, merge) >= slots
    assert image_patch_count(width, height + 1, patch, merge) >= slots


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (-1, 5), (1, 1, 0), (1, 1, 14, 0)])
def test_numbers_below_1_are_no_size(numbers):
    with pytest.raises(ValueError, match="must all be above 0"):
        image_patch_count(*numbers)
