"""Smaller files of pictures: sizes, formats, and that equal bytes give equal files."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageCms, features

from shardkit.media.decode import decode_rgb
from shardkit.media.formats import sniff
from shardkit.media.load import load
from shardkit.media.reasons import BadMedia
from shardkit.media.shrink import encoders, shrink, smaller


def picture(width: int = 90, height: int = 60, mode: str = "RGB") -> Image.Image:
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    cells = np.stack([x * 2, y * 3, (x + y) % 256], axis=2).astype(np.uint8)
    return Image.fromarray(cells).convert(mode)


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("size", "max_side", "found"),
    [
        ((2000, 1000), 1000, (1000, 500)),
        ((1000, 2000), 999, (500, 999)),  # 499.5, half up
        ((3000, 2000), 1024, (1024, 683)),  # 682.67
        ((10_000, 20), 100, (100, 1)),  # 0.2, and never 0
        ((1024, 1024), 1024, (1024, 1024)),
        ((5, 7), 1024, (5, 7)),
    ],
)
def test_sizes_keep_the_aspect(size, max_side, found):
    assert smaller(*size, max_side) == found


@pytest.mark.parametrize(
    ("kind", "options", "media_type"),
    [
        ("JPEG", {"quality": 80}, "image/jpeg"),
        ("PNG", {}, "image/png"),
        ("GIF", {}, "image/png"),
        ("BMP", {}, "image/png"),
        ("TIFF", {}, "image/png"),
        ("PPM", {}, "image/png"),
        ("WEBP", {"quality": 80}, "image/webp"),
        ("WEBP", {"lossless": True}, "image/webp"),
        (
            "WEBP",
            {"lossless": True, "icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()},
            "image/webp",
        ),
        ("JPEG2000", {}, "image/jpeg"),
        ("AVIF", {}, "image/jpeg"),
    ],
)
def test_formats(kind, options, media_type):
    if kind == "AVIF" and "avif" not in features.get_supported():
        pytest.skip("this Pillow has no AVIF")
    data = encoded(picture(), kind, **options)
    made = shrink(data, max_side=45, quality=90)
    assert made == shrink(data, max_side=45, quality=90)
    assert (made.width, made.height) == (45, 30)
    assert sniff(made.data).media_type == media_type
    small = np.asarray(decode_rgb(made.data), np.int16)
    expected = np.asarray(decode_rgb(data).resize((45, 30), Image.Resampling.LANCZOS), np.int16)
    lossless = media_type == "image/png" or options.get("lossless")
    assert np.abs(small - expected).max() == 0 if lossless else np.abs(small - expected).mean() < 8
    assert shrink(data, max_side=90, quality=90) is None
    assert load(made.data, keep_metadata=True).stored == made.data == load(made.data).stored


def test_the_file_shows_what_the_original_shows():
    image = picture()
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = encoded(image, "JPEG", exif=exif)
    made = shrink(turned, max_side=45, quality=90)
    assert (made.width, made.height) == (30, 45)
    clear = Image.new("RGBA", (90, 60), (0, 0, 0, 0))
    assert decode_rgb(shrink(encoded(clear, "PNG"), max_side=9, quality=90).data).getcolors() == [(54, (255, 255, 255))]


def test_grey_pictures_are_stored_grey():
    for kind in ("JPEG", "PNG"):
        made = shrink(encoded(picture(mode="L"), kind), max_side=45, quality=90)
        with Image.open(io.BytesIO(made.data)) as image:
            assert image.mode == "L"


def test_quality_decides_the_size_of_lossy_files():
    data = encoded(picture(400, 300), "JPEG", quality=95)
    sizes = [len(shrink(data, max_side=200, quality=quality).data) for quality in (30, 60, 90)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] / 2


def test_damaged_bytes_are_refused():
    with pytest.raises(BadMedia, match="ends before the picture does"):
        shrink(encoded(picture(400, 300), "JPEG")[:2000], max_side=20, quality=90)


def test_the_libraries_are_named():
    assert encoders().startswith("pillow-lanczos/1 pil=")
    assert encoders().count("=") == 4
