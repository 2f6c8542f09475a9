"""Any mode becomes 8-bit RGB on white, in the right colours, and what that changed is told."""

import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from shardkit.media.decode import decode_rgb
from shardkit.media.load import BadMedia
from tests.media.builders import (
    changes,
    encode,
    picture,
    png_chunk,
    raw_png,
    same,
    split_gif,
    swapped_profile,
)

WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def distance(one, other):
    return np.abs(np.asarray(one).astype(int) - np.asarray(other).astype(int)).max()


# Alpha and depth


def test_a_16_bit_ramp_stays_a_ramp():
    rows = [b"".join(struct.pack(">H", 4369 * k) for k in range(16))] * 2
    data = raw_png(16, 2, 16, 0, rows)

    assert [decode_rgb(data).getpixel((k, 1)) for k in range(16)] == [(17 * k,) * 3 for k in range(16)]
    assert changes(data) == ("depth_to_8",)


@pytest.mark.parametrize("mode", ["I;16", "I;16B"])
def test_16_bit_tiff_keeps_256_levels(mode):
    samples = np.arange(0, 65536, 64, dtype="<u2" if mode == "I;16" else ">u2").reshape(32, 32)
    image = Image.frombytes(mode, (32, 32), samples.tobytes())

    levels = set(np.asarray(decode_rgb(encode(image, "TIFF")))[:, :, 0].ravel().tolist())

    assert levels == set(range(256))


def test_a_16_bit_pgm_and_a_short_scale_reach_white():
    wide = b"P5 2 1 65535\n" + struct.pack(">HH", 0x1234, 0xFFFF)
    short = b"P5 2 1 1023\n" + struct.pack(">HH", 0, 1023)

    assert [decode_rgb(wide).getpixel((x, 0))[0] for x in (0, 1)] == [0x12, 0xFF]
    assert [decode_rgb(short).getpixel((x, 0))[0] for x in (0, 1)] == [0, 255]


def test_a_white_is_zero_16_bit_tiff_is_no_negative():
    data = encode(Image.fromarray(np.array([[0, 65535]], dtype=np.uint16)), "TIFF", tiffinfo={262: 0})

    assert [decode_rgb(data).getpixel((x, 0)) for x in (0, 1)] == [WHITE, BLACK]


def test_one_bit_is_black_and_white():
    assert [decode_rgb(raw_png(4, 1, 1, 0, [b"\xa0"])).getpixel((x, 0)) for x in (0, 1)] == [WHITE, BLACK]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
@pytest.mark.parametrize("fmt", ["PNG", "WEBP", "TIFF"])
def test_black_signs_on_a_transparent_ground_stand_on_white(mode, fmt):
    if (mode, fmt) in (("PA", "PNG"), ("PA", "WEBP"), ("LA", "WEBP")):
        mode = "RGBA"
    image = Image.new("RGBA", (4, 2), (0, 0, 0, 0))
    image.putpixel((1, 1), (0, 0, 0, 255))
    data = encode(image.convert(mode), fmt, **({"lossless": True} if fmt == "WEBP" else {}))

    assert [decode_rgb(data).getpixel((x, 1)) for x in (0, 1)] == [WHITE, BLACK]
    assert changes(data) == ("alpha_on_white",)


def test_half_transparent_is_half_way_to_white():
    assert decode_rgb(encode(Image.new("RGBA", (2, 2), (0, 100, 200, 51)), "PNG")).getpixel((0, 0)) == (204, 224, 244)


def test_opaque_alpha_changes_nothing():
    assert same(decode_rgb(encode(picture().convert("RGBA"), "PNG")), picture())
    assert changes(encode(picture().convert("RGBA"), "PNG")) == ()


@pytest.mark.parametrize(
    ("depth", "colour", "row", "key", "chunks"),
    [
        (1, 0, b"\x40", struct.pack(">H", 1), ()),
        (2, 0, b"\x30", struct.pack(">H", 3), ()),
        (4, 0, b"\x0f", struct.pack(">H", 15), ()),
        (8, 0, b"\x00\x80", struct.pack(">H", 0x80), ()),
        (16, 0, b"\x00\x00\x80\x01", struct.pack(">H", 0x8001), ()),
        (8, 2, b"\x00\x00\x00\x01\x02\x03", struct.pack(">HHH", 1, 2, 3), ()),
        (16, 2, b"\0\0\0\0\0\0\x12\x34\x56\x78\x9a\xbc", struct.pack(">HHH", 0x1234, 0x5678, 0x9ABC), ()),
        (8, 3, b"\x00\x01", b"\xff\x00", (png_chunk(b"PLTE", bytes(6)),)),
        (8, 3, b"\x00\x01", b"\xfe\x00", (png_chunk(b"PLTE", bytes(6)),)),
    ],
)
def test_each_form_of_trns_makes_its_pixel_white(depth, colour, row, key, chunks):
    image = decode_rgb(raw_png(2, 1, depth, colour, [row], *chunks, png_chunk(b"tRNS", key)))

    assert max(image.getpixel((0, 0))) <= 1
    assert image.getpixel((1, 0)) == WHITE


def test_a_gif_of_greys_does_not_take_the_colours_of_its_file():
    screen, frame = split_gif(encode(Image.frombytes("L", (16, 16), bytes(range(256))), "GIF"))
    reds = b"".join(bytes((value, 0, 0)) for value in range(256))
    greys = b"".join(bytes((value, value, value)) for value in range(256))
    assert frame[0] == 0x2C

    image = decode_rgb(screen[:13] + reds + frame[:9] + b"\x87" + greys + frame[10:] + b";")

    assert image.getpixel((15, 15)) == WHITE


# Colour


def test_adobe_cmyk_and_ycck_keep_white_white_and_black_black():
    for ink, seen in (((0, 0, 0, 0), WHITE), ((0, 0, 0, 255), BLACK), ((255, 0, 0, 0), (0, 255, 255))):
        data = encode(Image.new("CMYK", (8, 8), ink), "JPEG", quality=100)
        assert b"Adobe" in data
        assert distance(decode_rgb(data).getpixel((4, 4)), seen) <= 2
        assert changes(data) == ("cmyk_to_rgb",)


def test_cmyk_and_ycbcr_tiff_become_rgb():
    assert decode_rgb(encode(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "TIFF")).getpixel((4, 4)) == (255, 0, 0)
    coded = encode(picture().convert("YCbCr"), "TIFF", compression="tiff_adobe_deflate")
    assert distance(decode_rgb(coded), picture()) <= 4


@pytest.mark.parametrize("fmt", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_a_profile_is_applied(fmt):
    options = {"PNG": {}, "JPEG": {"quality": 100}, "TIFF": {}, "WEBP": {"lossless": True}}[fmt]
    data = encode(Image.new("RGB", (8, 8), (255, 0, 0)), fmt, icc_profile=swapped_profile(), **options)

    red, green, blue = decode_rgb(data).getpixel((4, 4))

    assert green > 200
    assert max(red, blue) < 60
    assert changes(data) == ("icc_to_srgb",)


def test_a_profile_is_applied_beneath_alpha():
    data = encode(Image.new("RGBA", (2, 1), (255, 0, 0, 255)), "PNG", icc_profile=swapped_profile())

    assert decode_rgb(data).getpixel((0, 0))[1] > 200


@pytest.mark.parametrize(
    "profile", [b"no profile", swapped_profile()[:150], swapped_profile(b"CMYK"), swapped_profile(b"GRAY")]
)
def test_a_profile_that_does_not_fit_is_ignored_and_counted(profile):
    data = encode(picture(), "PNG", icc_profile=profile)

    assert same(decode_rgb(data), picture())
    assert changes(data) == ("icc_ignored",)


def test_srgb_under_any_name_changes_nothing():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = encode(picture(), "PNG", icc_profile=profile)

    assert same(decode_rgb(data), picture())
    assert changes(data) == ()


@pytest.mark.parametrize("mode", ["F", "I", "LAB"])
def test_samples_without_an_agreed_range_are_refused(mode):
    with pytest.raises(BadMedia, match=f"unsupported_format: TIFF with samples of kind {mode}"):
        decode_rgb(encode(Image.new(mode, (4, 4)), "TIFF"))
