"""The smallest EXIF, and reading the tag out of any."""

import struct

import pytest
from PIL import Image

from shardkit.media.formats import AVIF, GIF, HEIF, JPEG, TIFF
from shardkit.media.orientation import exif_orientation, minimal_exif, orientation_of, upright
from tests.media.builders import SECRET, exif, picture, xmp


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_minimal_exif_holds_the_orientation_and_nothing_else(orientation):
    block = minimal_exif(orientation)

    tags = Image.Exif()
    tags.load(block)

    assert len(block) == 26
    assert dict(tags) == {0x0112: orientation}
    assert exif_orientation(block) == orientation


def test_the_tag_is_found_in_either_byte_order_and_behind_the_lead():
    assert exif_orientation(exif(6)) == 6
    assert exif_orientation(b"Exif\0\0" + exif(6)) == 6
    assert exif_orientation(b"Exif\0\0Exif\0\0" + minimal_exif(8)) == 8
    assert exif_orientation(exif()) is None


@pytest.mark.parametrize(
    ("kind", "value"), [(1, struct.pack("<Bxxx", 6)), (3, struct.pack("<Hxx", 6)), (4, struct.pack("<I", 6))]
)
def test_the_tag_is_read_in_each_integer_type(kind, value):
    block = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHI", 0x0112, kind, 1) + value + b"\0\0\0\0"

    assert exif_orientation(block) == 6


def test_a_text_in_place_of_the_number_is_no_orientation():
    assert (
        exif_orientation(b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHI", 0x0112, 2, 2) + b"6\0\0\0" + b"\0\0\0\0")
        is None
    )


def test_who_says_it_depends_on_the_format():
    info = {"exif": exif(), "xmp": xmp(6)}

    assert orientation_of(JPEG, info) == 6
    assert [orientation_of(kind, info) for kind in (AVIF, TIFF, HEIF, GIF)] == [1, 1, 1, 1]
    assert orientation_of(AVIF, {"exif": exif(5)}) == 5
    assert orientation_of(JPEG, {"Raw profile type exif": "\nexif\n 5\nnot hexadecimal"}) == 1
    assert orientation_of(JPEG, {}) == 1


def test_turning_by_1_hands_the_same_picture_back():
    image = picture()

    assert upright(image, 1) is image


def test_the_builder_puts_something_secret_in():
    assert SECRET in exif(6)
    assert SECRET in xmp(6)
