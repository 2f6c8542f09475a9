"""Sizes of PNGs without decoding: those of the upright picture, or none."""

from __future__ import annotations

import zlib

import pytest
from PIL import Image

from shardkit.media.decode import decode_rgb
from shardkit.media.png_header import plain_png_size
from tests.media.builders import encode, exif, picture

PLAIN = encode(picture(24, 16), "PNG")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_the_size_is_that_of_the_decoded_picture(mode):
    image = picture(24, 16) if mode != "I;16" else Image.new("I;16", (24, 16), 300)
    data = encode(image.convert(mode), "PNG")
    decoded = decode_rgb(data)
    assert plain_png_size(data) == (decoded.height, decoded.width) == (16, 24)
    assert plain_png_size(memoryview(data + b"behind the end")) == (16, 24)


def with_chunk(name, body):
    """PLAIN with a chunk behind its header."""
    chunk = len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")
    return PLAIN[:33] + chunk + PLAIN[33:]


def test_texts_and_times_turn_nothing():
    data = with_chunk(b"tEXt", b"Software\0of somebody")
    assert plain_png_size(data) == (16, 24)


@pytest.mark.parametrize(
    "data",
    [
        encode(picture(24, 16), "PNG", exif=exif(6)),
        with_chunk(b"eXIf", exif(6)[6:]),
        with_chunk(b"tEXt", b"Raw profile type exif\0anything"),
        with_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0<x/>"),
        encode(picture(24, 16), "PNG", save_all=True, append_images=[picture(24, 16, seed=1)]),
        encode(picture(24, 16), "JPEG"),
        b"",
        PLAIN[:8],
    ],
    ids=["exif", "exif chunk", "old exif", "xmp", "animated", "jpeg", "nothing", "signature"],
)
def test_what_may_be_turned_or_is_no_still_png_is_for_the_decoder(data):
    assert plain_png_size(data) is None


def test_what_was_cut_or_changed_anywhere_is_for_the_decoder():
    assert plain_png_size(PLAIN) == (16, 24)
    for at in range(len(PLAIN)):
        assert plain_png_size(PLAIN[:at]) is None, at
        changed = PLAIN[:at] + bytes([PLAIN[at] ^ 0x10]) + PLAIN[at + 1 :]
        assert plain_png_size(changed) is None, at


def test_headers_that_no_decoder_takes():
    def header(width, height, depth=8, colour=2):
        body = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([depth, colour, 0, 0, 0])
        return PLAIN[:8] + (13).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big") + PLAIN[33:]

    assert plain_png_size(header(24, 16)) == (16, 24)
    for odd in (header(0, 16), header(24, 16, depth=7), header(24, 16, colour=5), header(1 << 20, 1 << 20)):
        assert plain_png_size(odd) is None
