"""A copy as somebody else would have kept it."""

from __future__ import annotations

import io

from PIL import Image

from shardkit.media.load import load
from shardkit.media.resave import resave


def encoded(side: int) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((side, side), 80).convert("RGB").save(out, "PNG")
    return out.getvalue()


def test_a_copy_has_other_pixels_and_a_small_one_the_same():
    large, small = encoded(64), encoded(63)
    assert load(resave(large)).media_type == "image/jpeg"
    assert load(resave(large)).pixel_id != load(large).pixel_id
    assert load(resave(small)).pixel_id == load(small).pixel_id
