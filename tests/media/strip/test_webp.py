"""WebP: a list of chunks to keep; sizes and flags follow."""

import pytest

from shardkit.media.formats import WEBP
from shardkit.media.orientation import minimal_exif
from shardkit.media.strip import strip
from tests.media.builders import encode, opened, picture, riff_chunk
from tests.media.strip import builders


def names(webp):
    at, found = 12, []
    while at < len(webp):
        found.append(webp[at : at + 4].decode())
        size = int.from_bytes(webp[at + 4 : at + 8], "little")
        at += 8 + size + size % 2
    return found


def test_what_goes_is_named_and_sizes_and_flags_follow():
    stripped = strip(WEBP, builders.webp(), 6)

    assert list(stripped.removed) == ["chunk", "exif", "tail", "xmp"]
    assert names(stripped.data) == ["VP8X", "ICCP", "VP8 ", "EXIF"]
    assert int.from_bytes(stripped.data[4:8], "little") == len(stripped.data) - 8
    assert stripped.data[20] & 0x2C == 0x28
    assert stripped.data.endswith(riff_chunk(b"EXIF", minimal_exif(6)))
    assert opened(stripped.data).getexif() == {0x0112: 6}


def test_an_upright_picture_loses_the_flag_with_the_chunk():
    stripped = strip(WEBP, builders.webp(1), 1)

    assert names(stripped.data) == ["VP8X", "ICCP", "VP8 "]
    assert stripped.data[20] & 0x0C == 0


@pytest.mark.parametrize("lossless", [False, True])
def test_a_simple_file_loses_its_tail_only(lossless):
    data = encode(picture(), "WEBP", lossless=lossless)

    assert strip(WEBP, data, 1).data == data
    assert strip(WEBP, data + b"tail", 1).data == data
    assert strip(WEBP, data + b"tail", 1).removed == {"tail": 4}


def test_frames_stay():
    data = encode(picture(), "WEBP", save_all=True, append_images=[picture(seed=1)], lossless=True)

    assert names(data).count("ANMF") == 2
    assert strip(WEBP, data, 1).data == data
