"""Boxes follow the picture, however its raster lies in the file."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pytest
from PIL import Image, features

from shardkit.media.decode import decode_rgb
from shardkit.media.load import load
from shardkit.prepare.ingest.page_geometry import follow
from shardkit.prepare.ingest.reasons import Bad
from shardkit.records import LayoutItem


def moved(polygon, **settings):
    changes: Counter[str] = Counter()
    item = LayoutItem(level="word", polygon=polygon)
    (found,) = follow([item], **{"page": None, "orientation": 1, "changes": changes, **settings})
    return found.polygon, changes


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_covers_the_same_pixels_after_turning(orientation, kind):
    if kind == "AVIF" and "avif" not in features.get_supported():
        pytest.skip("Pillow is built without AVIF here")
    raster = np.zeros((40, 60), dtype=np.uint8)
    raster[6:14, 20:50] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    out = io.BytesIO()
    Image.fromarray(raster).save(out, kind, exif=exif)
    media = load(out.getvalue())
    upright = np.asarray(decode_rgb(media.stored).convert("L")) // 128 * 255
    assert (media.height, media.width) == upright.shape == ((60, 40) if orientation >= 5 else (40, 60))
    for page in (None, (40, 60), (20, 30)):
        scale = 1 if page is None else page[0] / 40
        box = tuple(value * scale for value in (20, 6, 50, 14))
        (x0, y0, x1, y1), changes = moved(box, page=page, upright=upright.shape, orientation=media.orientation)
        assert upright[int(y0) : int(y1), int(x0) : int(x1)].min() == 255
        assert (x1 - x0) * (y1 - y0) == 30 * 8
        assert changes["layout_turned"] == (orientation != 1)


def test_a_layout_that_counts_on_the_upright_picture_is_not_turned_again():
    assert moved((1, 2, 3, 4), page=(60, 40), upright=(60, 40), orientation=6) == ((1, 2, 3, 4), {})
    assert moved((2, 1, 4, 3), page=(40, 60), upright=(60, 40), orientation=6)[0] == (37, 2, 39, 4)


def test_pages_in_other_units_are_scaled_side_by_side():
    polygon, changes = moved((10, 10, 20, 20, 10, 20), page=(100, 200), upright=(50, 99))
    assert polygon == pytest.approx((4.95, 5, 9.9, 10, 4.95, 10))
    assert changes == {"layout_scaled": 1}


def test_a_page_of_another_shape_is_that_of_another_image():
    with pytest.raises(Bad, match="100 x 200") as bad:
        moved((1, 1, 2, 2), page=(100, 200), upright=(200, 100))
    assert bad.value.reason == "image_sizes_wrong"


@pytest.mark.parametrize("side", [5e-324, 1e-310, 1e-200])
def test_a_page_that_is_next_to_nothing_wide_has_no_shape(side):
    with pytest.raises(Bad) as bad:
        moved((0, 0, 1, 1), page=(side, side), upright=(200, 100))
    assert bad.value.reason == "image_sizes_wrong"
    (_, _, x1, y1), _ = moved((0, 0, 1, 1), page=(1, 1), upright=(200, 100))
    assert (x1, y1) == (100, 200), "shares of the page"
