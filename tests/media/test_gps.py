"""Whether a picture says where it was taken, in every place where a file can say it."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from shardkit.media.load import load


def _exif(*, place: bool) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    if place:
        exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 7.0), 3: "E", 4: (13.0, 24.0, 30.0)})
    return exif


def _file(kind: str, **settings: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (6, 4), (200, 0, 0)).save(out, kind, **settings)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("place", [True, False])
def test_a_place_in_exif(kind, place):
    media = load(_file(kind, exif=_exif(place=place)))
    assert media.has_gps is place
    # The stored bytes never say it, whatever the file said.
    assert not load(media.stored).has_gps


def test_a_gps_directory_without_a_latitude_is_no_place():
    exif = Image.Exif()
    exif.get_ifd(0x8825)[0] = b"\2\3\0\0"
    assert not load(_file("JPEG", exif=exif)).has_gps


def test_a_place_in_xmp():
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a exif:GPSLatitude="52,31.1N"/></x:xmpmeta>'
    media = load(_file("JPEG", xmp=xmp))
    assert media.has_gps
    assert b"GPSLatitude" not in media.stored


def test_a_place_in_a_tiff():
    directory = ImageFileDirectory_v2()
    directory[0x8825] = {2: (52.0, 31.0, 7.0)}
    assert load(_file("TIFF", tiffinfo=directory)).has_gps
    assert not load(_file("TIFF")).has_gps


def test_broken_metadata_is_no_place():
    for length in range(10, 60):
        whole = _exif(place=True).tobytes()
        assert isinstance(load(_file("PNG", exif=whole[:length])).has_gps, bool)
