"""The letterbox processor: one size, the aspect kept."""

import numpy as np
import pytest
from PIL import Image

from shardkit.media.processors import Letterbox


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ((100, 200), (112, 224)),
        ((200, 100), (224, 112)),
        ((480, 640), (168, 224)),
        ((71, 71), (224, 224)),
        ((1, 2000), (1, 224)),
        ((2000, 1), (224, 1)),
        ((3508, 2480), (224, 158)),
        ((1, 1), (224, 224)),
    ],
)
def test_a_picture_is_fitted_in_at_the_top_left(size, shown):
    geometry = Letterbox().geometry(*size)

    assert (geometry.height, geometry.width, geometry.slots) == (224, 224, 64)
    assert geometry.shown == shown


def test_the_border_is_free_of_the_filling():
    image = Image.new("RGB", (4, 2), (200, 200, 200))

    assert Letterbox(image_size=8, pad_value=7).pixels(image)[:, :, 0].tolist() == [[200] * 8] * 4 + [[7] * 8] * 4
    assert (Letterbox(image_size=2, pad_value=7).pixels(image)[:, :, 1] == np.array([[200, 200], [7, 7]])).all()
