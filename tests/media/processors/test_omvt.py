"""Grids of the four kinds of patches: pinned values, and that they cover the picture and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.media.processors.omvt import BASE, KINDS, PAD_DOMAIN, PAD_VALUE, PRESETS, derived, grid, num_patches


@pytest.mark.parametrize(
    ("size", "preset", "grids", "total"),
    [
        (224, "base", [(7, 28), (28, 7), (14, 14), (4, 4)], 604),
        (100, "base", [(4, 13), (13, 4), (7, 7), (2, 2)], 157),
        (56, "derived", [(2, 4), (4, 2), (4, 4), (1, 1)], 33),
    ],
)
def test_the_golden_grids(size, preset, grids, total):
    patches = PRESETS[preset]

    assert [grid(size, size, patches[kind]) for kind in KINDS] == grids
    assert num_patches(size, size, patches) == total


def test_values_a_patch_have_the_golden_dimensions():
    assert [3 * height * width for height, width in BASE.values()] == [768, 768, 768, 9408]
    assert [3 * height * width for height, width in PRESETS["derived"].values()] == [1176, 1176, 588, 9408]


def test_height_and_width_are_not_swapped():
    assert grid(28, 56, (28, 28)) == (1, 2)
    assert grid(56, 28, (28, 28)) == (2, 1)
    assert PRESETS["derived"]["vertical"] == (28, 14)


def test_the_kinds_of_each_preset_are_the_four_in_order():
    assert all(tuple(patches) == KINDS for patches in PRESETS.values())
    assert (PAD_DOMAIN, PAD_VALUE) == ("normalised", 0.0)


@given(st.integers(1, 4000), st.integers(1, 4000), st.sampled_from(list(BASE.values())))
def test_a_grid_covers_the_picture_and_has_no_empty_row_or_column(height, width, patch):
    rows, columns = grid(height, width, patch)

    assert rows * patch[0] >= height > (rows - 1) * patch[0]
    assert columns * patch[1] >= width > (columns - 1) * patch[1]


@pytest.mark.parametrize("numbers", [(0, 1, (1, 1)), (1, 0, (1, 1)), (1, 1, (0, 1)), (1, 1, (1, -1))])
def test_nothing_has_no_grid(numbers):
    with pytest.raises(ValueError, match="must be above 0"):
        grid(*numbers)


@pytest.mark.parametrize("side", [0, 2, 30])
def test_patches_are_derived_from_multiples_of_4(side):
    with pytest.raises(ValueError, match="no multiple of 4"):
        derived(side)
