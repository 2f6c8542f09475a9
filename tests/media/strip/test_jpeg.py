"""JPEG: which segments stay, byte by byte."""

import pytest

from shardkit.media.formats import JPEG
from shardkit.media.orientation import minimal_exif
from shardkit.media.strip import strip
from tests.media.builders import SECRET, encode, exif, jpeg_segment, picture, with_segments
from tests.media.strip import builders

EXIF_6 = jpeg_segment(0xE1, b"Exif\0\0" + minimal_exif(6))


def plain(**options):
    return encode(picture(), "JPEG", **options)


def test_what_goes_is_named_and_what_stays_is_the_file_without_it():
    stripped = strip(JPEG, builders.jpeg(), 6)

    profile_only = encode(picture(), "JPEG", icc_profile=builders.swapped_profile())
    assert stripped.data == with_segments(profile_only, EXIF_6)
    assert list(stripped.removed) == ["application", "comment", "exif", "iptc", "tail", "thumbnail", "xmp"]
    assert sum(stripped.removed.values()) == len(builders.jpeg()) + len(EXIF_6) - len(stripped.data)


def test_an_upright_picture_needs_no_exif():
    assert strip(JPEG, builders.jpeg(1), 1).data == encode(picture(), "JPEG", icc_profile=builders.swapped_profile())


def test_the_minimal_exif_of_another_tool_stays_and_a_second_one_goes():
    assert strip(JPEG, with_segments(plain(), EXIF_6), 6).removed == {}
    assert strip(JPEG, with_segments(plain(), EXIF_6, EXIF_6), 6).removed == {"exif": len(EXIF_6)}


def test_orientation_that_stood_in_xmp_is_kept_as_exif():
    data = with_segments(plain(), jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>"))

    assert strip(JPEG, data, 8).data == with_segments(plain(), jpeg_segment(0xE1, b"Exif\0\0" + minimal_exif(8)))


def test_adobes_marker_stays_for_it_tells_the_colours():
    data = encode(picture().convert("CMYK"), "JPEG")

    assert b"Adobe" in data
    assert strip(JPEG, data, 1).data == data


def test_the_second_picture_of_an_mpo_goes_with_its_index():
    stripped = strip(JPEG, builders.mpo(), 1)

    assert list(stripped.removed) == ["second_picture"]
    assert b"MPF\0" not in stripped.data
    assert stripped.data == plain()


def test_a_picture_behind_the_end_mark_is_called_so_without_an_index_too():
    assert list(strip(JPEG, plain() + plain(), 1).removed) == ["second_picture"]
    assert list(strip(JPEG, plain() + b"\0\0" + plain(), 1).removed) == ["second_picture"]
    assert strip(JPEG, plain() + b"PK\3\4run.sh", 1).removed == {"tail": 10}


def test_the_thumbnail_inside_the_jfif_segment_goes():
    data = plain()
    jfif = data[4 + 2 : 20]
    thumbnail = jpeg_segment(0xE0, jfif[:-2] + b"\1\1" + b"RGB")

    stripped = strip(JPEG, data[:2] + thumbnail + data[20:], 1)

    assert stripped.data == data
    assert stripped.removed == {"thumbnail": 3}


def test_junk_between_segments_goes():
    data = plain()

    assert strip(JPEG, data[:20] + b"junk\xff\0\xff\xff" + data[20:], 1).data == data
    assert strip(JPEG, data[:2] + b"\xff\x01" + data[2:], 1).data == data


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}])
def test_the_end_mark_is_found_behind_every_scan(options):
    data = encode(picture(64, 64), "JPEG", quality=95, **options)

    assert strip(JPEG, data + SECRET, 1).data == data


def test_an_end_mark_inside_a_segment_is_no_end():
    data = with_segments(plain(), jpeg_segment(0xE1, b"Exif\0\0" + exif(1, maker=b"\xff\xd9\xff\xda")))

    assert strip(JPEG, data, 1).data == plain()


def test_segments_between_scans_stay_as_they_are():
    data = encode(picture(64, 64), "JPEG", progressive=True)
    second = data.index(b"\xff\xda", data.index(b"\xff\xda") + 2)
    data = data[:second] + jpeg_segment(0xFE, b"between \xff\xd9") + data[second:]

    assert strip(JPEG, data + b"tail", 1).data == data


def test_a_segment_of_impossible_length_ends_the_search():
    data = plain()[:2] + b"\xff\xe1\xff\xff" + b"Exif\0\0"

    assert strip(JPEG, data, 1).removed == {"exif": 10}
    assert strip(JPEG, b"\xff\xd8\xff", 1).data == b"\xff\xd8\xff"
