"""The square processor: one size, one number of slots."""

import numpy as np
import pytest
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.media.decode import DECODER
from shardkit.media.processors import Geometry, Square
from tests.media.builders import picture


@pytest.mark.parametrize(("image_size", "slots"), [(56, 4), (224, 64), (28, 1), (30, 4)])
def test_slots_come_from_the_processed_size(image_size, slots):
    processor = Square(image_size=image_size)

    for height, width in ((1, 1), (3508, 2480), (10, 15000)):
        assert processor.geometry(height, width) == Geometry(height=image_size, width=image_size, slots=slots)


@pytest.mark.parametrize("size", [(1, 1), (24, 16), (16, 24), (300, 1), (56, 56)])
def test_pixels_have_the_shape_that_the_geometry_says(size):
    processor = Square(image_size=56)
    pixels = processor.pixels(picture(*size))
    geometry = processor.geometry(size[1], size[0])

    assert pixels.shape == (geometry.height, geometry.width, 3)
    assert pixels.dtype == np.uint8


def test_a_picture_of_the_right_size_is_not_touched():
    assert Square(image_size=24).pixels(picture(24, 24)).tobytes() == picture(24, 24).tobytes()


def test_bilinear_values_are_pinned():
    image = Image.fromarray(np.array([[[0, 0, 0], [240, 120, 60]]], dtype=np.uint8))

    assert Square(image_size=4).pixels(image)[0, :, 0].tolist() == [0, 60, 180, 240]
    assert Square(image_size=1).pixels(image)[0, 0].tolist() == [120, 60, 30]


def test_the_recipe_holds_every_setting_and_the_decoder():
    assert Square(image_size=56).recipe() == {
        "name": "square",
        "version": 1,
        "decoder": DECODER,
        "resampling": "bilinear",
        "normalisation": "imagenet",
        "crop_percent": 100,
        "mirror": False,
        "pad_domain": "normalised",
        "pad_value": 0,
        "image_size": 56,
        "patch": 14,
        "merge": 2,
    }


@pytest.mark.parametrize("setting", [{"image_size": 0}, {"patch": -14}, {"merge": True}, {"image_size": 5.5}])
def test_impossible_settings_are_a_config_error(setting):
    (name,) = setting

    with pytest.raises(ConfigError) as caught:
        Square(**setting)

    assert f"--set {name}=" in caught.value.hint


def test_an_empty_picture_has_no_geometry():
    with pytest.raises(ValueError, match="above 0"):
        Square().geometry(0, 5)
