"""The patch-budget processor: shrunk until the patches are few enough, then filled up."""

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import PatchBudget


@pytest.mark.parametrize(
    ("size", "shown", "filled"),
    [
        ((600, 800), (600, 800), (16, 12)),
        ((30, 30), (30, 30), (26, 26)),
        ((1400, 1400), (896, 896), (0, 0)),
        ((101, 173), (101, 173), (11, 23)),
        ((8400, 28), (7168, 23), (0, 5)),
        ((1, 2000), (1, 2000), (27, 16)),
        ((2000, 1), (2000, 1), (16, 27)),
        ((1, 30000), (1, 7168), (27, 0)),
    ],
)
def test_sizes(size, shown, filled):
    geometry = PatchBudget().geometry(*size)

    assert geometry.shown == shown
    assert (geometry.height - shown[0], geometry.width - shown[1]) == filled
    assert geometry.slots == (geometry.height // 28) * (geometry.width // 28)


def test_patches_are_counted_after_filling_up():
    """Counted before, a page of 3508 x 2480 becomes 78 x 54 = 4212 patches."""
    geometry = PatchBudget().geometry(3508, 2480)

    assert geometry.shown == (1036, 732)
    assert (geometry.height // 14, geometry.width // 14) == (74, 54)


def test_no_larger_picture_would_fit():
    random = np.random.default_rng(0)
    processor = PatchBudget(max_patches=256, max_side=24)
    shrunk = 0
    for height, width in random.integers(1, 2000, (500, 2)).tolist():
        geometry = processor.geometry(height, width)
        rows, columns = geometry.height // 28, geometry.width // 28
        assert rows * columns * 4 <= 256
        assert max(rows, columns) * 2 <= 24
        if geometry.shown == (height, width):
            continue
        shrunk += 1
        # One line more of the longer side, the other in proportion, is over a bound.
        longest, other = max(height, width), min(height, width)
        more = max(geometry.shown) + 2
        rows, columns = -(-more // 28), -(-other * more // (longest * 28))
        assert rows * columns * 4 > 256 or rows * 2 > 24
    assert shrunk > 300


def test_bounds_below_one_slot():
    with pytest.raises(
        ConfigError, match="max_patches of the patch-budget processor is 3, less than the 4 of one slot"
    ):
        PatchBudget(max_patches=3)
    with pytest.raises(ConfigError, match="max_side"):
        PatchBudget(max_side=1)
