"""The pixel-budget processor: multiples of a slot's side within two areas."""

import math

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import PixelBudget
from tests.media.builders import picture

LARGE = PixelBudget(max_pixels=12845056)


def smart_resize(height, width, factor, least, most):
    """The rule in floats, as Qwen's own processor has it."""
    h, w = max(factor, round(height / factor) * factor), max(factor, round(width / factor) * factor)
    if h * w > most:
        scale = math.sqrt(height * width / most)
        return max(factor, math.floor(height / scale / factor) * factor), max(
            factor, math.floor(width / scale / factor) * factor
        )
    if h * w < least:
        scale = math.sqrt(least / (height * width))
        return math.ceil(height * scale / factor) * factor, math.ceil(width * scale / factor) * factor
    return h, w


@pytest.mark.parametrize(
    ("size", "processed", "slots"),
    [
        ((1024, 768), (1036, 756), 999),
        ((480, 640), (476, 644), 391),
        ((3508, 2480), (3500, 2492), 11125),
        ((56, 56), (56, 56), 4),
        ((42, 70), (56, 56), 4),  # 1.5 and 2.5 both round to 2
        ((14, 14), (56, 56), 4),
        ((10, 40), (28, 112), 4),
        ((1, 2000), (28, 1988), 71),
        ((2000, 1), (1988, 28), 71),
        ((5000, 5000), (3584, 3584), 16384),
    ],
)
def test_sides_and_slots(size, processed, slots):
    geometry = LARGE.geometry(*size)

    assert (geometry.height, geometry.width, geometry.slots) == (*processed, slots)
    assert geometry.shown == processed


@pytest.mark.parametrize("processor", [LARGE, PixelBudget(), PixelBudget(patch=16, min_pixels=65536, max_pixels=10**6)])
def test_it_is_the_rule_in_floats_but_where_those_lose_a_row(processor):
    random = np.random.default_rng(1)
    sizes = [*random.integers(1, 6000, (6000, 2)).tolist(), *((side, side) for side in range(1, 6000, 3))]
    differ = 0
    for height, width in sizes:
        if max(height, width) > 200 * min(height, width):
            continue
        geometry = processor.geometry(height, width)
        ours = (geometry.height, geometry.width)
        floats = smart_resize(height, width, processor.cell, processor.min_pixels, processor.max_pixels)
        if ours != floats:
            differ += 1
            # By one row or column of slots: the root of a ratio is a whole number, and the float is not.
            assert all(abs(a - b) in (0, processor.cell) for a, b in zip(ours, floats, strict=True))
    assert differ < 0.02 * len(sizes)


@pytest.mark.parametrize("side", [3621, 5000, 5210])
def test_a_square_over_the_area_becomes_the_largest_square(side):
    geometry = LARGE.geometry(side, side)

    assert (geometry.height, geometry.width) == (3584, 3584)


def test_a_float_lost_a_row_there():
    assert smart_resize(4209, 4209, 28, 3136, 12845056) == (3556, 3556)
    assert LARGE.geometry(4209, 4209).height == 3584


@pytest.mark.parametrize("size", [(1, 10**7), (10**7, 1), (2, 10**6), (5000, 6000), (1, 36000)])
def test_the_upper_bound_holds_for_every_shape(size):
    geometry = PixelBudget().geometry(*size)

    assert geometry.height * geometry.width <= 1003520
    assert geometry.slots <= 1280


def test_the_upper_bound_holds_where_the_lower_one_is_as_high():
    processor = PixelBudget(min_pixels=3136, max_pixels=3136)
    for size in ((1, 1), (10, 37), (56, 56), (900, 80)):
        geometry = processor.geometry(*size)
        assert geometry.height * geometry.width <= 3136


def test_a_picture_of_the_right_size_is_not_touched():
    assert PixelBudget().pixels(picture(84, 56)).tobytes() == picture(84, 56).tobytes()


def test_height_comes_before_width():
    """28 high, 56 wide: one row of two slots."""
    geometry = PixelBudget(min_pixels=784).geometry(28, 56)

    assert (geometry.height // 28, geometry.width // 28) == (1, 2)


def test_bounds_that_contradict_one_another():
    with pytest.raises(
        ConfigError, match=r"max_pixels of the pixel-budget processor is 3000, less than min_pixels 3136"
    ):
        PixelBudget(max_pixels=3000)
