"""TIFF: entries go and values are blanked; nothing moves, and what is not plain stays."""

import struct

import pytest

from shardkit.media.decode import decode_rgb
from shardkit.media.formats import TIFF
from shardkit.media.strip import strip
from tests.media.builders import SECRET, encode, opened, picture, xmp
from tests.media.strip import builders
from tests.media.strip.builders import grey_tags, plain_tiff

PIXELS = bytes(range(48))


def grey(**more):
    return plain_tiff({**grey_tags(8, 6), **{int(tag[1:]): value for tag, value in more.items()}}, PIXELS)


def test_what_goes_is_named_and_the_file_keeps_its_size():
    data = builders.tiff()

    stripped = strip(TIFF, data, 1)

    assert list(stripped.removed) == ["exif", "iptc", "tag", "text", "xmp"]
    assert len(stripped.data) == len(data)
    left = opened(stripped.data)
    assert set(left.tag_v2) == {256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 34675}
    assert left.info["icc_profile"] == builders.swapped_profile()


def test_the_orientation_tag_stays_in_its_directory():
    stripped = strip(TIFF, builders.tiff(), 1)

    assert b"\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00" in stripped.data


def test_every_page_loses_its_texts():
    stripped = strip(TIFF, builders.pages(), 1)

    assert stripped.removed == {"text": 3 * (12 + len(SECRET) + 1)}
    assert SECRET not in stripped.data


def test_a_plain_file_stays_to_the_byte():
    assert strip(TIFF, grey(), 1).data == grey()
    assert strip(TIFF, grey(), 1).removed == {}


def test_a_short_value_goes_with_its_entry():
    stripped = strip(TIFF, grey(t305=(2, b"me\0")), 1)

    assert stripped.removed == {"text": 12}
    assert b"me\0" not in stripped.data
    assert decode_rgb(stripped.data).tobytes() == decode_rgb(grey()).tobytes()


def test_xmp_that_alone_says_which_way_up_stays():
    turned = grey(t700=(1, xmp(6)))

    assert decode_rgb(turned).size == (6, 8)
    assert strip(TIFF, turned, 1).data == turned
    assert list(strip(TIFF, grey(t700=(1, xmp(6)), t274=(3, b"\1\0")), 1).removed) == ["xmp"]


def test_a_place_that_pixels_use_too_is_not_blanked():
    data = bytearray(grey(t315=(2, SECRET)))
    at = data.index(struct.pack("<HH", 315, 2)) + 8
    (pixels,) = struct.unpack_from("<I", data, data.index(struct.pack("<HH", 273, 4)) + 8)
    struct.pack_into("<I", data, at, pixels)

    stripped = strip(TIFF, bytes(data), 1)

    assert stripped.removed == {"text": 12 + len(SECRET)}
    assert decode_rgb(stripped.data).tobytes() == decode_rgb(bytes(data)).tobytes()


@pytest.mark.parametrize(
    "strange",
    [
        {"t279": (4, b"\0\0\0\0")},
        {"t279": (4, struct.pack("<II", 48, 48))},
        {"t273": (7, b"PIXELS")},
        {"t34665": (2, b"text")},
        {"t34665": (4, struct.pack("<I", 10**9))},
        {"t330": (4, struct.pack("<I", 10**9))},
    ],
)
def test_a_file_of_which_not_every_place_is_known_stays(strange):
    data = grey(t315=(2, SECRET), **strange)

    assert strip(TIFF, data, 1).data == data


def test_directories_that_lie_over_pixels_or_one_another_are_left_alone():
    short = grey_tags(8, 6)
    short[273] = (4, struct.pack("<I", 0))
    over_pixels = plain_tiff({**short, 315: (2, SECRET)}, PIXELS)
    overlapping = plain_tiff({**grey_tags(8, 6), 315: (2, SECRET)}, PIXELS, link=10)

    assert strip(TIFF, over_pixels, 1).data == over_pixels
    assert strip(TIFF, overlapping, 1).data == overlapping


def test_a_chain_of_directories_that_bites_its_tail_ends():
    data = plain_tiff({**grey_tags(8, 6), 315: (2, SECRET)}, PIXELS, link=8)

    assert list(strip(TIFF, data, 1).removed) == ["text"]


def test_bigtiff_stays():
    data = encode(picture(), "TIFF", big_tiff=True, tiffinfo={270: SECRET.decode()})

    assert data[2] == 43
    assert decode_rgb(data).size == (24, 16)
    assert strip(TIFF, data, 1).data == data
