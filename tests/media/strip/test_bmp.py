"""BMP: the end of the pixels comes from the header's own numbers."""

import struct

import pytest

from shardkit.media.decode import decode_rgb
from shardkit.media.formats import BMP
from shardkit.media.strip import strip
from tests.media.builders import encode, picture


def bmp(bits, compression, pixels, width=4, height=2, palette=b"", size=40, more=b"", offset=None):
    head = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, compression, 0, 0, 0, 0, 0) + more
    at = 14 + len(head) + len(palette) if offset is None else offset
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, at) + head + palette + pixels


PALETTE = b"".join(bytes((3 * value % 256, value, 255 - value, 0)) for value in range(256))
RLE = b"\4\1\0\0\0\4\1\2\3\4\0\1"


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_the_tail_goes(mode):
    data = encode(picture(23, 5).convert(mode), "BMP")

    assert strip(BMP, data, 1).data == data
    assert strip(BMP, data + b"tail", 1).data == data
    assert strip(BMP, data + b"tail", 1).removed == {"tail": 4}


def test_rows_from_the_top_and_old_headers_are_measured_too():
    upside = bmp(24, 0, bytes(range(24)), height=-2)
    core = b"BM" + struct.pack("<IHHI", 0, 0, 0, 26) + struct.pack("<IHHHH", 12, 4, 2, 1, 24) + bytes(range(24))

    for data in (upside, core):
        assert decode_rgb(data).size == (4, 2)
        assert strip(BMP, data + b"tail", 1).data == data


def test_run_length_data_ends_with_its_mark():
    data = bmp(8, 1, RLE, palette=PALETTE)

    assert decode_rgb(data).size == (4, 2)
    assert strip(BMP, data + b"tail", 1).data == data
    assert strip(BMP, data[:-2] + b"\4\1", 1).removed == {}


def test_deltas_and_half_byte_runs_are_walked():
    delta = bmp(8, 1, b"\0\2\1\1\1\5\0\1", palette=PALETTE)
    nibbles = bmp(4, 2, b"\4\x12\0\0\0\3\x12\x30\0\1", palette=PALETTE[:64])

    assert strip(BMP, delta + b"tail", 1).data == delta
    assert strip(BMP, nibbles + b"tail", 1).data == nibbles


def test_a_profile_behind_the_pixels_stays():
    more = bytes(16) + struct.pack("<I", 0x4D424544) + bytes(48) + struct.pack("<IIII", 0, 124 + 24, 7, 0)
    data = bmp(24, 0, bytes(24), size=124, more=more) + b"profile"

    assert len(more) == 84
    assert strip(BMP, data + b"tail", 1).data == data


def test_pixels_that_begin_inside_the_header_are_left_alone():
    data = bmp(8, 0, bytes(8), palette=PALETTE, offset=54) + b"tail"

    assert decode_rgb(data).size == (4, 2)
    assert strip(BMP, data, 1).data == data
