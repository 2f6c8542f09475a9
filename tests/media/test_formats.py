"""Content says what a file is, and a refusal says what it looks like."""

import pytest

from shardkit.media import pillow
from shardkit.media.formats import FORMATS, OTHERS, sniff
from shardkit.media.load import BadMedia, load
from tests.media.builders import encode, picture

TAKEN = {
    "JPEG": ("image/jpeg", ".jpg"),
    "PNG": ("image/png", ".png"),
    "GIF": ("image/gif", ".gif"),
    "WEBP": ("image/webp", ".webp"),
    "BMP": ("image/bmp", ".bmp"),
    "TIFF": ("image/tiff", ".tif"),
    "PPM": ("image/x-portable-anymap", ".pnm"),
    "JPEG2000": ("image/jp2", ".jp2"),
    "MPO": ("image/jpeg", ".jpg"),
}


@pytest.mark.parametrize("fmt", TAKEN)
def test_the_formats_of_the_allow_list_are_taken(fmt):
    more = {"save_all": True, "append_images": [picture(seed=1)]} if fmt == "MPO" else {}

    media = load(encode(picture(), fmt, **more))

    assert (media.media_type, media.extension) == TAKEN[fmt]
    assert (media.width, media.height) == (24, 16)


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (b"", "empty_file", "empty"),
        (b"\n<!DOCTYPE html>\n<html><body>403</body></html>", "not_an_image", "HTML"),
        (b"\xef\xbb\xbf<html>", "not_an_image", "HTML"),
        (b'<?xml version="1.0"?>\n<svg xmlns="x"/>', "unsupported_format", "SVG"),
        (b"<svg/>", "unsupported_format", "SVG"),
        (b'<?xml version="1.0"?><Error>AccessDenied</Error>', "not_an_image", "XML"),
        (b'{"error": 404}', "not_an_image", "JSON"),
        (b"not an image\n", "not_an_image", "unknown"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not_an_image", "Git LFS"),
        (b"PK\x03\x04rest", "not_an_image", "ZIP"),
        (b"%PDF-1.7", "unsupported_format", "PDF"),
        (b"8BPS\0\1", "unsupported_format", "PSD"),
        (b"\x00\x00\x00\x18ftypmp42\0\0\0\0mp42isom", "unsupported_format", "MP4"),
        (b"\x00\x00\x00\x14ftypmif1\0\0\0\0mif1", "unsupported_format", "HEIF"),
        (b"\xff\x0a" + b"\0" * 20, "unsupported_format", "JPEG XL"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\4CgBI", "unsupported_format", "Apple"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\4tEXt", "corrupt", "PNG"),
    ],
)
def test_what_is_refused_is_called_by_its_name(data, reason, words):
    with pytest.raises(BadMedia) as caught:
        load(data)

    assert caught.value.reason == reason
    assert words in caught.value.detail


@pytest.mark.parametrize("fmt", ["ICO", "PCX", "TGA", "SGI", "DDS", "MSP", "QOI", "XBM", "EPS", "PDF"])
def test_pictures_of_other_formats_are_unsupported_not_broken(fmt):
    mode = {"MSP": "1", "XBM": "1"}.get(fmt, "RGB")

    with pytest.raises(BadMedia, match="unsupported_format"):
        load(encode(picture(16, 16).convert(mode), fmt))


def test_a_tga_without_a_footer_is_known_by_its_header():
    data = encode(picture(), "TGA")[:-26]
    assert not data.endswith(b"XFILE.\0")

    with pytest.raises(BadMedia, match="TGA"):
        load(data)


@pytest.mark.parametrize(("brands", "name"), [(b"mif1\0\0\0\0mif1heic", "HEIF"), (b"avif\0\0\0\0mif1avif", "AVIF")])
def test_an_iso_file_is_known_by_any_of_its_brands(brands, name):
    assert sniff(len(brands + b"sizename").to_bytes(4, "big") + b"ftyp" + brands).name == name


def test_every_pattern_of_the_tables_compiles_and_no_taken_format_is_refused():
    for fmt in TAKEN:
        assert sniff(encode(picture(), fmt)) in [kind for _, kind in FORMATS]
    assert len({name for _, _, name in OTHERS}) == len(OTHERS)


def test_heic_without_its_decoder_is_said_to_lack_it(monkeypatch):
    monkeypatch.setattr(pillow, "find_spec", lambda name: None)
    pillow._has_decoder.cache_clear()

    with pytest.raises(BadMedia) as caught:
        load(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 40)

    pillow._has_decoder.cache_clear()
    assert (caught.value.reason, caught.value.detail) == ("unsupported_format", "HEIC, no decoder installed")
