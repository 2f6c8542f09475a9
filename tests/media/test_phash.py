"""Perceptual hashes and classes: pinned, exact, and telling what they should tell."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFilter

from shardkit.media import phash
from shardkit.media.decode import decode, decode_rgb
from shardkit.media.limits import MediaLimits
from shardkit.media.phash import CLASSES, looks, looks_of, sketch
from tests.media.builders import encode


def scene(width=400, height=300, seed=0):
    """Overlapping soft blobs of colour: something to look at, unlike from seed to seed."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height), tuple(int(v) for v in rng.integers(60, 200, 3)))
    draw = ImageDraw.Draw(image)
    for _ in range(30):
        x, y = rng.integers(0, width), rng.integers(0, height)
        size = rng.integers(width // 16, width // 4)
        draw.ellipse((x, y, x + size, y + size), fill=tuple(int(v) for v in rng.integers(0, 255, 3)))
    return image.filter(ImageFilter.GaussianBlur(3))


def page(seed=0, paper=(250, 248, 240), ink=(20, 20, 30), lines=20, width=600, height=800):
    """Lines of short strokes, as print looks from afar."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(image)
    for line in range(lines):
        x, y = 60, 60 + line * 32
        while x < width - 60:
            draw.rectangle((x, y, x + 1, y + int(rng.integers(8, 14))), fill=ink)
            x += int(rng.integers(4, 9))
    return image


def distance(one, two):
    return (int(one, 16) ^ int(two, 16)).bit_count()


def test_hashes_are_pinned():
    ramp = np.add.outer(np.arange(200) * 2 % 256, np.arange(300) ** 2 // 400 % 256).astype(np.uint8)
    found = looks(Image.fromarray(ramp).convert("RGB"))

    assert found.phash == "96530d6515572555ea9a09551a92f6aac6d31caaf96ae36d0e4a7cd4e1b60735"
    assert found.phash_fine[:64] == "96535d6d0d65b4961557554525555555ea9aca69095555d41ad3515df6aaaaaa"
    assert (len(found.phash), len(found.phash_fine)) == (64, 256)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_frequencies_are_the_exact_sums_of_whole_numbers(seed):
    cells = np.random.default_rng(seed).integers(0, 256, (128, 128), dtype=np.uint8)
    cosines = [[round(math.cos(math.pi * u * (2 * x + 1) / 256) * 2**14) for x in range(128)] for u in range(32)]
    across = np.array(cosines, np.int64)

    slow = across @ cells.astype(np.int64) @ across.T

    assert np.array_equal(phash._lowest_frequencies(cells[None])[0], slow)
    assert np.abs(slow).max() < 2**53


def test_no_cosine_lies_where_rounding_could_go_either_way():
    exact = [math.cos(math.pi * u * (2 * x + 1) / 256) * 2**14 for u in range(32) for x in range(128)]
    assert min(abs(value % 1 - 0.5) for value in exact) > 1e-6


def test_a_bit_is_a_frequency_above_the_median():
    frequencies = np.arange(256.0).reshape(16, 16)
    assert phash._bits(frequencies[None]) == ["00" * 16 + "ff" * 16]
    frequencies[7, 15], frequencies[8, 0] = 127.5, 127.5  # two at the middle that are equal: neither is above
    assert int(phash._bits(frequencies[None])[0], 16).bit_count() == 127


@pytest.mark.parametrize("fmt", ["PNG", "BMP", "TIFF"])
def test_equal_pixels_look_equal(fmt):
    assert looks(decode_rgb(encode(scene(), fmt))) == looks(scene())


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("jpeg", lambda image: decode_rgb(encode(image, "JPEG", quality=40))),
        ("half", lambda image: image.resize((image.width // 2, image.height // 2))),
        ("bright", lambda image: image.point(lambda v: min(255, v + 25))),
        ("grey", lambda image: image.convert("L").convert("RGB")),
    ],
)
def test_a_copy_stays_near_and_another_picture_far(what, change):
    for seed in range(5):
        one, copy, other = looks(scene(seed=seed)), looks(change(scene(seed=seed))), looks(scene(seed=seed + 100))
        assert distance(one.phash, copy.phash) <= 20
        assert distance(one.phash_fine, copy.phash_fine) <= 120
        assert distance(one.phash, other.phash) > 60
        assert distance(one.phash_fine, other.phash_fine) > 300


def test_pages_of_one_layout_are_told_apart_by_the_fine_hash():
    hashes = [looks(page(seed=seed)).phash_fine for seed in range(6)]
    assert min(distance(a, b) for k, a in enumerate(hashes) for b in hashes[:k]) > 120


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("RGB", (300, 200), "white"), "blank"),
        (Image.new("RGB", (300, 200), "blue"), "blank"),
        (Image.new("RGB", (1, 1), "black"), "blank"),
        (Image.new("RGB", (200, 1), "black"), "blank"),
        (Image.linear_gradient("L").convert("RGB"), "blank"),
        (scene(), "picture"),
        (page(), "page"),
        (page(paper=(200, 190, 160), ink=(70, 60, 50)), "page"),
        (page(lines=1), "page"),
        (page(lines=1, height=120), "page"),
        (page(paper=(20, 20, 20), ink=(240, 240, 240)), "page"),
    ],
    ids=["white", "blue", "dot", "row", "slope", "scene", "page", "yellowed", "one line", "line", "dark ground"],
)
def test_classes(image, expected):
    found = looks(image)
    assert found.picture_class == expected
    assert found.picture_class in CLASSES


def test_an_empty_scan_is_blank_whatever_its_noise():
    noise = np.random.default_rng(0).normal(235, 6, (1100, 800)).clip(0, 255).astype(np.uint8)
    assert looks(Image.fromarray(noise).convert("RGB")).picture_class == "blank"


@pytest.mark.parametrize(("folder", "pattern"), [("ocr_pages_docbank", "*.jpg"), ("ocr_lines_dta", "*.tif")])
def test_real_pages_and_lines_are_pages(shared: Path, folder, pattern):
    files = sorted((shared / "data" / folder).glob(pattern))[:20]
    assert len(files) >= 10
    assert {looks(decode_rgb(file.read_bytes())).picture_class for file in files} == {"page"}


def test_real_photographs_are_pictures(shared: Path):
    files = sorted((shared / "data" / "photos").glob("*.jpg"))
    classes = [looks(decode_rgb(file.read_bytes())).picture_class for file in files]
    assert classes.count("picture") >= 0.9 * len(files) > 10
    assert "blank" not in classes


def test_greys_of_the_file_look_as_the_picture_does():
    grey = scene().convert("L")
    data = encode(grey, "PNG")
    picture = decode(data, frame=0, limits=MediaLimits())
    assert picture.grey is not None
    assert picture.grey.tobytes() == picture.image.convert("L").tobytes() == grey.tobytes()
    assert looks_of([sketch(picture.image, picture.grey)]) == [looks(picture.image)]
    assert decode(encode(scene(), "PNG"), frame=0, limits=MediaLimits()).grey is None
    turned = grey.copy()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = decode(encode(turned, "JPEG", exif=exif), frame=0, limits=MediaLimits())
    assert picture.grey is not None
    assert picture.grey.tobytes() == picture.image.convert("L").tobytes()
    assert picture.grey.size == picture.image.size == (grey.height, grey.width)


def test_many_at_once_look_as_each_alone():
    images = [scene(seed=seed) for seed in range(30)] + [page(seed=seed) for seed in range(10)]
    images += [Image.new("RGB", (w, h), (v, v, v)) for w, h, v in [(1, 1, 0), (3, 500, 255), (500, 3, 90)]]
    found = looks_of([sketch(image) for image in images])
    assert found == [looks(image) for image in images]
    assert {one.picture_class for one in found} == {"picture", "page", "blank"}
    assert looks_of([]) == []
