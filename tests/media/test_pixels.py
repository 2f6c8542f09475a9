"""One id for one picture, whatever file it comes in."""

import struct

import pytest
import xxhash
from PIL import Image

from shardkit.media.load import load
from shardkit.media.pixels import pixel_id
from tests.media.builders import encode, picture, png_chunk, with_chunks


def test_the_id_is_pinned():
    assert pixel_id(Image.new("RGB", (2, 1), (1, 2, 3))) == "1b4705f60b017cc9eeb0984ec6f4e558"
    assert pixel_id(Image.new("RGB", (1, 2), (1, 2, 3))) == "d4a9fc64b982b7e7b8ad9745046af63d"


def test_lossless_forms_of_one_picture_share_an_id():
    image = picture()
    files = [encode(image, "PNG"), encode(image, "BMP"), encode(image, "TIFF"), encode(image, "PPM")]
    files += [encode(image, "WEBP", lossless=True), with_chunks(files[0], png_chunk(b"tEXt", b"a\0b"))]
    files.append(encode(image.convert("RGBA"), "PNG"))
    files.append(encode(image, "TIFF", compression="tiff_lzw"))

    media = [load(data) for data in files]

    assert {one.pixel_id for one in media} == {pixel_id(image)}
    assert len({one.asset_id for one in media}) == len(files)


@pytest.mark.parametrize("size", [(1, 1), (1000, 1100), (7, 90_000), (90_000, 7), (2**18, 5), (400_000, 2)])
def test_the_id_is_that_of_size_and_bytes_in_whatever_pieces_they_are_read(size):
    image = picture(40, 30).resize(size)
    whole = xxhash.xxh3_128(struct.pack("<II", *size) + image.tobytes())

    assert pixel_id(image) == whole.hexdigest()


def test_size_and_every_pixel_count():
    black = Image.new("RGB", (4, 3))
    dot = black.copy()
    dot.putpixel((3, 2), (0, 0, 1))

    assert len({pixel_id(image) for image in (black, black.resize((3, 4)), black.resize((12, 1)), dot)}) == 4


def test_only_canonical_pictures_have_an_id():
    with pytest.raises(AssertionError):
        pixel_id(Image.new("L", (1, 1)))
