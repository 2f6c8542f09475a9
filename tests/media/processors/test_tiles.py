"""The tiles processor: the grid that suits a picture, without distortion."""

import math

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.media.processors import Tiles
from shardkit.media.processors.tiles import cut_tiles, grids
from tests.media.builders import picture


@pytest.mark.parametrize(
    ("size", "canvas", "shown", "tiles"),
    [
        ((100, 200), (448, 448), (224, 448), 1),
        ((300, 800), (448, 896), (300, 800), 2),
        ((449, 449), (896, 896), (449, 449), 4),
        ((480, 640), (896, 896), (480, 640), 4),
        ((1080, 1920), (896, 896), (504, 896), 4),
        ((3508, 2480), (896, 896), (896, 633), 4),
        ((500, 1000), (448, 896), (448, 896), 2),
        ((2000, 100), (1792, 448), (1792, 89), 4),
        ((1, 2000), (448, 1792), (1, 1792), 4),
        ((2000, 1), (1792, 448), (1792, 1), 4),
        ((71, 71), (448, 448), (448, 448), 1),  # in floats 448 x 447
    ],
)
def test_grids_and_sizes(size, canvas, shown, tiles):
    geometry = Tiles().geometry(*size)

    assert (geometry.height, geometry.width) == canvas
    assert geometry.shown == shown
    assert geometry.tile_rows * geometry.tile_columns == tiles
    assert (geometry.tile_rows * 448, geometry.tile_columns * 448) == canvas
    assert geometry.slots == tiles * 256


@pytest.mark.parametrize(
    ("size", "max_canvas", "shown"),
    [((800, 600), False, (448, 336)), ((200, 300), False, (200, 300)), ((200, 500), True, (200, 500))],
)
def test_tiles_of_224(size, max_canvas, shown):
    geometry = Tiles(tile=224, max_canvas=max_canvas).geometry(*size)

    assert geometry.shown == shown
    assert (geometry.height, geometry.width) == {
        (800, 600): (448, 448),
        (200, 300): (224, 448),
        (200, 500): (224, 672),
    }[size]


def test_supported_grids():
    assert grids(4) == [(1, 4), (2, 2), (1, 1), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1)]
    assert grids(1) == [(1, 1)]


def in_floats(height, width, tile=448):
    """The rule as it was first written."""
    sizes = [(rows * tile, columns * tile) for rows, columns in grids(4)]
    scales = [min(h / height, w / width) for h, w in sizes]
    large = [scale for scale in scales if scale >= 1]
    best = min(large) if large else max(scales)
    full_h, full_w = min((size for size, scale in zip(sizes, scales, strict=True) if scale == best), key=math.prod)
    most_h, most_w = min(max(height, tile), full_h), min(max(width, tile), full_w)
    scale_h, scale_w = most_h / height, most_w / width
    if scale_w < scale_h:
        return (full_h, full_w), (min(math.floor(height * scale_w), most_h), most_w)
    return (full_h, full_w), (most_h, min(math.floor(width * scale_h), most_w))


def test_it_is_the_rule_in_floats_but_where_those_lose_a_pixel():
    random = np.random.default_rng(2)
    sizes = [*random.integers(1, 3000, (6000, 2)).tolist(), *((side, side) for side in range(1, 1000))]
    differ = 0
    for height, width in sizes:
        geometry = Tiles().geometry(height, width)
        canvas, (shown_h, shown_w) = in_floats(height, width)
        assert (geometry.height, geometry.width) == canvas
        lost = (geometry.shown[0] - max(1, shown_h), geometry.shown[1] - max(1, shown_w))
        assert lost in ((0, 0), (0, 1), (1, 0))
        differ += lost != (0, 0)
    assert 0 < differ < 0.01 * len(sizes)


def test_most_of_the_tiles_of_a_small_photograph_is_filling():
    geometry = Tiles().geometry(480, 640)
    assert round(100 * 480 * 640 / (geometry.height * geometry.width)) == 38


def test_tiles_lie_row_by_row():
    processor = Tiles(tile=28, patch=7)
    pixels = processor.pixels(picture(50, 40))
    tiles = cut_tiles(pixels, 28)

    assert tiles.shape == (4, 28, 28, 3)
    assert (tiles[1] == pixels[:28, 28:]).all()
    assert (tiles[2] == pixels[28:, :28]).all()


def test_a_tile_that_slots_do_not_fill():
    with pytest.raises(ConfigError, match=r"tile of the tiles processor is 450, no multiple of the 28 pixels"):
        Tiles(tile=450)
