"""Limits are judged from the header, say their name, and are no switch for the whole process."""

import struct
import warnings

import pytest
from PIL import Image

from shardkit.errors import ConfigError
from shardkit.media.limits import MediaLimits
from shardkit.media.load import BadMedia, load
from tests.media.builders import encode, exif, picture, png_chunk


def claim(width, height):
    """A PNG that claims a size and has ten bytes of data."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b"\0" * 10) + png_chunk(b"IEND", b"")


def reason_of(data, **limits):
    with pytest.raises(BadMedia) as caught:
        load(data, limits=MediaLimits(**limits))
    return caught.value.reason, caught.value.detail


@pytest.mark.parametrize("size", [(60_000, 60_000), (2_147_483_647, 1), (8_001, 8_000)])
def test_a_claim_of_too_many_pixels_is_refused_before_they_are_decoded(size):
    reason, detail = reason_of(claim(*size))

    assert reason == "too_many_pixels"
    assert "max_pixels" in detail


def test_the_pixel_limit_is_exact():
    data = encode(picture(20, 10), "PNG")

    assert load(data, limits=MediaLimits(max_pixels=200)).width == 20
    assert reason_of(data, max_pixels=199) == ("too_many_pixels", "20 x 10 = 200 pixels, the limit max_pixels is 199")


def test_the_aspect_limit_is_exact():
    data = encode(picture(20, 1), "PNG")

    assert load(data, limits=MediaLimits(max_aspect=20)).width == 20
    assert reason_of(data, max_aspect=19) == ("extreme_aspect", "20 x 1, the limit is 1:19")
    assert reason_of(encode(picture(1, 201), "PNG"))[0] == "extreme_aspect"


def test_the_byte_limit_is_exact():
    data = encode(picture(), "PNG")

    assert load(data, limits=MediaLimits(max_bytes=len(data))).width == 24
    assert reason_of(data, max_bytes=len(data) - 1)[0] == "too_many_bytes"


def test_each_page_is_judged_by_its_own_size():
    data = encode(picture(4, 4), "TIFF", save_all=True, append_images=[picture(40, 40)])

    assert load(data, limits=MediaLimits(max_pixels=100)).width == 4
    with pytest.raises(BadMedia, match="too_many_pixels"):
        load(data, limits=MediaLimits(max_pixels=100), frame=1)


def test_a_webp_canvas_is_judged_before_its_decoder_is_made():
    data = bytearray(encode(picture().convert("RGBA"), "WEBP", exif=b"Exif\0\0" + exif(1)))
    assert data[12:16] == b"VP8X"
    data[24:30] = b"\xff\xff\x00\xff\xff\x00"

    assert reason_of(bytes(data)) == (
        "too_many_pixels",
        "65536 x 65536 = 4294967296 pixels, the limit max_pixels is 64000000",
    )


def test_pillows_own_guard_stays_as_it_was():
    before, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)

    load(encode(picture(), "PNG"), limits=MediaLimits(max_pixels=178_956_970))
    reason_of(claim(60_000, 60_000))

    assert before == Image.MAX_IMAGE_PIXELS
    assert filters == list(warnings.filters)


@pytest.mark.parametrize(
    "setting", [{"max_pixels": 0}, {"max_bytes": -1}, {"max_aspect": 0}, {"max_pixels": 178_956_971}]
)
def test_limits_that_cannot_hold_are_a_config_error(setting):
    (name,) = setting

    with pytest.raises(ConfigError) as caught:
        MediaLimits(**setting)

    assert name in caught.value.what
    assert name in caught.value.hint
