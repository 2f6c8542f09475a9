"""The naflex processor: about as many patches as there may be."""

import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import Naflex


@pytest.mark.parametrize(
    ("size", "processed"),
    [
        ((480, 640), (224, 288)),
        ((1024, 768), (288, 224)),
        ((100, 100), (256, 256)),
        ((50, 2000), (48, 1360)),
        ((1, 2000), (16, 4096)),
        ((2000, 1), (4096, 16)),
        ((1, 30000), (16, 4096)),
        ((1, 1), (112, 112)),  # the scale ends at 100
        ((71, 71), (256, 256)),
    ],
)
def test_sizes(size, processed):
    geometry = Naflex().geometry(*size)

    assert (geometry.height, geometry.width) == processed
    assert geometry.slots == processed[0] * processed[1] // 256 <= 256


def test_merged_patches_are_whole():
    geometry = Naflex(merge=2, max_patches=1024).geometry(480, 640)

    assert (geometry.height, geometry.width, geometry.slots) == (448, 576, 252)


def test_fewer_patches_than_a_slot_has():
    with pytest.raises(ConfigError, match="max_patches"):
        Naflex(merge=2, max_patches=3)
