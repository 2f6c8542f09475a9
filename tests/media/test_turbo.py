"""simplejpeg gives Pillow's very pixels, or leaves the picture to it."""

import io

import numpy as np
import pytest
from PIL import Image, ImageCms

from shardkit.media import turbo
from shardkit.media.decode import decode_rgb
from shardkit.media.reasons import BadMedia

pytest.importorskip("simplejpeg")


def picture(height, width, seed=0):
    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (max(2, height // 9), max(2, width // 9), 3), np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **{"quality": 85, **options})
    return file.getvalue()


def decoded(data):
    """What simplejpeg makes of it; None where Pillow is asked."""
    size = turbo.plain_size(data)
    return None if size is None else turbo.decode_plain(data, size, turbo.Scratch())


def test_the_two_builds_that_are_installed_agree():
    assert turbo.is_exact()


@pytest.mark.parametrize("sampling", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 3}])
def test_full_scale_is_pillows_to_the_bit(sampling, options):
    for number, (height, width) in enumerate([(1, 1), (8, 8), (17, 31), (64, 240), (333, 251), (720, 405)]):
        for quality in (30, 95):
            data = jpeg(picture(height, width, number), subsampling=sampling, quality=quality, **options)
            found = decoded(data)
            assert found is not None
            assert np.array_equal(found, np.asarray(decode_rgb(data)))


def test_grey_is_pillows_to_the_bit():
    data = jpeg(picture(100, 70).convert("L"))
    assert np.array_equal(decoded(data), np.asarray(decode_rgb(data)))


def _exif(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize(
    "data",
    [
        jpeg(picture(40, 30), exif=_exif(6)),
        jpeg(picture(40, 30), icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()),
        jpeg(picture(40, 30).convert("CMYK")),
        jpeg(picture(40, 30), keep_rgb=True),
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"\xff\xd8",
        b"\xff\xd8\xff",
        b"",
        b"\xff\xd8\xff\xc0\x00\x04\x08\x00\xff\xda\x00\x02",
        b"\xff\xd8\xff\xe1\x00\x02\xff\xe1",
    ],
    ids=["turned", "profile", "cmyk", "rgb", "png", "start", "cut", "empty", "short frame", "no scan"],
)
def test_what_is_not_plain_is_pillows(data):
    assert decoded(data) is None


def test_an_orientation_of_1_turns_nothing():
    data = jpeg(picture(40, 30), exif=_exif(1))
    assert np.array_equal(decoded(data), np.asarray(decode_rgb(data)))


def test_damaged_pictures_are_pillows_or_equal():
    whole = jpeg(picture(96, 120), quality=70)
    random = np.random.default_rng(1)
    asked = 0
    for number in range(400):
        data = bytearray(whole)
        if number % 2:
            del data[int(random.integers(2, len(data))) :]
            if number % 4 == 1:
                data += b"\xff\xd9"
        else:
            data[int(random.integers(2, len(data)))] ^= int(random.integers(1, 256))
        found = decoded(bytes(data))
        if found is None:
            continue
        asked += 1
        assert np.array_equal(found, np.asarray(decode_rgb(bytes(data))))
    assert asked > 20


def test_hostile_pictures_are_pillows_or_equal(torture):
    plain = 0
    for file in sorted(torture.rglob("*")):
        data = file.read_bytes() if file.is_file() else b""
        found = decoded(data)
        if found is None:
            continue
        plain += 1
        try:
            expected = np.asarray(decode_rgb(data))
        except BadMedia as bad:
            raise AssertionError(f"{file.name}: Pillow says {bad}") from bad
        assert np.array_equal(found, expected), file.name
    assert plain > 0


@pytest.mark.parametrize("scale", turbo.SCALES)
def test_smaller_scales_have_sides_rounded_up(scale):
    for height, width in [(800, 1200), (801, 1203), (15, 9), (1, 1)]:
        found = turbo.decode_plain(jpeg(picture(height, width)), (height, width), turbo.Scratch(), scale=scale)
        assert found.shape == (-(-height // scale), -(-width // scale), 3)


def test_scratch_memory_is_used_again():
    scratch = turbo.Scratch()
    one, two = jpeg(picture(100, 100, 1)), jpeg(picture(50, 90, 2))
    first = turbo.decode_plain(one, (100, 100), scratch)
    second = turbo.decode_plain(two, (50, 90), scratch)
    assert np.shares_memory(first, second)
    assert np.array_equal(second, np.asarray(decode_rgb(two)))
