"""One call makes the whole record of a picture."""

import hashlib
import pickle

import pytest
import xxhash
from PIL import Image, features

from shardkit.media import load as module
from shardkit.media.decode import decode_rgb
from shardkit.media.load import REASONS, BadMedia, load, load_pages
from shardkit.media.phash import looks
from shardkit.media.pixels import pixel_id
from shardkit.media.strip.tiff_page import page_places
from tests.media.builders import SECRET, encode, exif, jpeg_segment, picture, with_segments


def phone_picture(orientation=6):
    return with_segments(encode(picture(), "JPEG"), jpeg_segment(0xE1, b"Exif\0\0" + exif(orientation))) + b"tail"


def test_the_record_is_of_the_upright_picture_and_of_both_byte_strings():
    data = phone_picture()

    media = load(data)

    assert media.asset_id == hashlib.sha256(data).hexdigest()
    assert media.stored_xxh3 == xxhash.xxh3_128_hexdigest(media.stored)
    assert media.pixel_id == pixel_id(decode_rgb(data)) == pixel_id(decode_rgb(media.stored))
    assert (media.width, media.height) == (16, 24)
    assert (media.media_type, media.extension) == ("image/jpeg", ".jpg")
    assert (media.num_frames, media.frame) == (1, 0)
    assert media.changes == ("orientation",)
    assert media.looks == looks(decode_rgb(data))


def test_what_was_removed_is_named_and_counted_and_gone():
    data = phone_picture()

    media = load(data)

    exif_size = 4 + 6 + len(exif(6))
    assert media.removed == ("exif", "tail")
    assert media.num_removed_bytes == exif_size + 4
    assert SECRET in data
    assert SECRET not in media.stored


def test_metadata_stays_where_that_is_asked_for():
    data = phone_picture()

    media = load(data, keep_metadata=True)

    assert media.stored == data
    assert (media.removed, media.num_removed_bytes) == ((), 0)
    assert (media.width, media.height) == (16, 24)


def test_a_plain_file_is_stored_as_it_came():
    data = encode(picture(), "PNG")

    media = load(data)

    assert media.stored == data
    assert media.asset_id == hashlib.sha256(media.stored).hexdigest()
    assert media.changes == ()


def test_a_file_too_strange_to_be_taken_apart_is_stored_whole_and_that_is_counted():
    data = encode(picture(), "TIFF", big_tiff=True, tiffinfo={270: SECRET.decode()})

    media = load(data)

    assert media.stored == data
    assert media.changes == ("metadata_left",)
    assert load(data, keep_metadata=True).changes == ()


def test_pages_of_one_file_share_the_asset_and_differ_in_frame_and_pixels():
    data = encode(picture(), "TIFF", save_all=True, append_images=[picture(seed=1), picture(20, 20)])

    pages = [load(data, frame=frame) for frame in range(3)]

    assert len({page.asset_id for page in pages}) == 1
    assert len({page.pixel_id for page in pages}) == 3
    assert [(page.frame, page.num_frames, page.width) for page in pages] == [(0, 3, 24), (1, 3, 24), (2, 3, 20)]


def test_bad_media_travels_between_processes():
    error = pickle.loads(pickle.dumps(BadMedia("truncated", "cut")))

    assert (error.reason, error.detail, str(error)) == ("truncated", "cut", "truncated: cut")


def test_reasons_are_a_closed_list():
    with pytest.raises(AssertionError):
        BadMedia("because", "of this")
    assert all(words and not words.endswith(".") for words in REASONS.values())


def pages(number=5):
    """A file of pages of different sizes."""
    first, *others = [picture(24 + k, 16, seed=k) for k in range(number)]
    return encode(first, "TIFF", save_all=True, append_images=others)


@pytest.mark.parametrize("keep_metadata", [False, True])
@pytest.mark.parametrize(("fmt", "number"), [("TIFF", 3), ("GIF", 1), ("WEBP", 1), ("JPEG", 1)])
def test_pages_are_what_each_is_alone_and_only_a_tiff_has_several(fmt, number, keep_metadata):
    many = {} if fmt == "JPEG" else {"save_all": True, "append_images": [picture(seed=k) for k in (1, 2)]}
    data = encode(picture(), fmt, **many)

    found = load_pages(data, keep_metadata=keep_metadata)

    assert list(found) == [load(data, frame=k, keep_metadata=keep_metadata) for k in range(number)]
    assert len({page.pixel_id for page in found}) == number


@pytest.mark.parametrize("fmt", ["GIF", "WEBP", "PNG"])
def test_frames_of_an_animation_behind_the_first_are_not_stored(fmt):
    data = encode(picture(), fmt, save_all=True, append_images=[picture(seed=1)])

    assert decode_rgb(load(data).stored).tobytes() == decode_rgb(data).tobytes()
    with pytest.raises(BadMedia, match="no_such_frame: frame 1 of an animation"):
        load(data, frame=1)


def test_a_file_is_hashed_once_and_what_is_stored_grows_with_its_pages(monkeypatch):
    calls = []
    original = module.sha256
    monkeypatch.setattr(module, "sha256", lambda data: (calls.append(1), original(data))[1])
    data = pages(40)

    found = load_pages(data)

    assert (len(found), len(calls)) == (40, 1)
    assert sum(len(page.stored) for page in found) < 1.1 * len(data)


def test_a_last_page_whose_directory_is_damaged_harms_no_other():
    data = bytearray(pages(3))
    good = load_pages(bytes(data))
    last = list(page_places(data))[2]
    width_type = data.index(b"\0\1\4\0\1\0\0\0", last)
    data[width_type + 2] = 7

    found = load_pages(bytes(data))

    assert [page.pixel_id for page in found[:2]] == [page.pixel_id for page in good[:2]]
    assert isinstance(found[2], BadMedia)
    assert [load(bytes(data), frame=k).pixel_id for k in (0, 1)] == [page.pixel_id for page in good[:2]]


@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_record_says_how_the_raster_was_turned_whoever_turned_it(fmt, orientation):
    if fmt == "AVIF" and "avif" not in features.get_supported():
        pytest.skip("Pillow is built without AVIF here")
    told = Image.Exif()
    told[0x0112] = orientation

    media = load(encode(picture(), fmt, exif=told))

    assert media.orientation == orientation
    assert (media.width, media.height) == ((16, 24) if orientation >= 5 else (24, 16))
    assert load(media.stored).orientation == orientation


def test_a_page_that_does_not_decode_harms_no_neighbour():
    data = bytearray(encode(picture(), "TIFF", compression="tiff_lzw", save_all=True, append_images=[picture(seed=1)]))
    good = load_pages(bytes(data))
    strip_at = data.index(encode(picture(), "TIFF", compression="tiff_lzw")[8:72])
    data[strip_at : strip_at + 64] = b"\xff" * 64
    bad, kept = load_pages(bytes(data))
    assert isinstance(bad, BadMedia)
    assert kept.pixel_id == good[1].pixel_id


def test_frames_of_what_is_no_picture_are_refused():
    with pytest.raises(BadMedia, match="not_an_image"):
        load_pages(b"no picture at all")
