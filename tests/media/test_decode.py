"""Canonical pixels: upright, on white, 8 bits, right colours, whole or not at all."""

import io
import struct
import threading
import warnings

import pytest
from PIL import Image, ImageFile, ImageOps
from PIL.TiffImagePlugin import AppendingTiffWriter

from shardkit.errors import ConfigError
from shardkit.media.decode import decode_rgb
from shardkit.media.load import BadMedia, load
from shardkit.media.orientation import minimal_exif
from tests.media.builders import (
    changes,
    encode,
    exif,
    jpeg_segment,
    opened,
    picture,
    png_chunk,
    riff_chunk,
    same,
    split_gif,
    swapped_profile,
    with_chunks,
    with_segments,
    xmp,
)

# Orientation


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_orientation_is_turned_upright_as_pillow_would(fmt, orientation):
    tag = Image.Exif()
    tag[0x0112] = orientation
    data = encode(picture(), fmt, exif=tag.tobytes())

    upright = ImageOps.exif_transpose(opened(data)).convert("RGB")

    assert same(decode_rgb(data), upright)
    assert upright.size == ((16, 24) if orientation > 4 else (24, 16))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_a_value_that_is_no_orientation_counts_as_upright(orientation):
    data = with_segments(encode(picture(), "JPEG"), jpeg_segment(0xE1, b"Exif\0\0" + exif(orientation)))

    assert same(decode_rgb(data), opened(data).convert("RGB"))
    assert changes(data) == ()


def test_xmp_orients_where_exif_says_nothing_and_exif_comes_first():
    jpeg = encode(picture(), "JPEG")
    said_by_xmp = jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(6))

    assert decode_rgb(with_segments(jpeg, said_by_xmp)).size == (16, 24)
    assert decode_rgb(with_segments(jpeg, said_by_xmp, jpeg_segment(0xE1, b"Exif\0\0" + exif(3)))).size == (24, 16)
    assert decode_rgb(with_segments(jpeg, said_by_xmp, jpeg_segment(0xE1, b"Exif\0\0" + exif()))).size == (16, 24)


def test_the_old_form_of_exif_in_a_png_text_orients_too():
    lines = "\nexif\n      26\n" + minimal_exif(6).hex() + "\n"
    data = with_chunks(encode(picture(), "PNG"), png_chunk(b"tEXt", b"Raw profile type exif\0" + lines.encode()))

    assert decode_rgb(data).size == (16, 24)


@pytest.mark.parametrize("block", [b"", b"II*\0", b"II*\0\xff\xff\xff\xff", b"XX*\0\x08\0\0\0\xff\xff", exif(6)[:20]])
def test_broken_exif_turns_nothing_and_breaks_nothing(block):
    data = with_segments(encode(picture(), "JPEG"), jpeg_segment(0xE1, b"Exif\0\0" + block))

    assert decode_rgb(data).size == (24, 16)


# Frames


def frames_of(fmt):
    images = [picture(seed=seed) for seed in range(3)]
    options = {"WEBP": {"lossless": True}}.get(fmt, {})
    return images, encode(images[0], fmt, save_all=True, append_images=images[1:], **options)


@pytest.mark.parametrize("fmt", ["PNG", "WEBP", "TIFF"])
def test_the_first_frame_is_taken_or_the_one_asked_for(fmt):
    images, data = frames_of(fmt)

    assert same(decode_rgb(data), images[0])
    assert [same(decode_rgb(data, frame), image) for frame, image in enumerate(images)] == [True] * 3
    assert changes(data) == ("frames_left_out",)
    with pytest.raises(BadMedia, match="no_such_frame: frame 3 of a file with 3"):
        decode_rgb(data, 3)


def test_the_second_picture_of_an_mpo_is_no_frame():
    _, data = frames_of("MPO")

    assert load(data).num_frames == 1
    with pytest.raises(BadMedia, match="no_such_frame"):
        load(data, frame=1)


def test_each_tiff_page_is_turned_by_its_own_tag():
    tags = Image.Exif()
    tags[0x0112] = 6
    sideways, straight = encode(picture(), "TIFF", exif=tags), encode(picture(seed=1), "TIFF")
    out = io.BytesIO()
    with AppendingTiffWriter(out) as writer:
        for page in (sideways, straight):
            writer.write(page)
            writer.newFrame()

    assert [decode_rgb(out.getvalue(), frame).size for frame in (0, 1)] == [(16, 24), (24, 16)]


def test_a_file_cut_in_a_later_frame_has_the_frames_before_the_cut():
    screen, frame = split_gif(encode(picture().convert("P"), "GIF"))
    assert frame[0] == 0x2C
    whole = screen + 3 * frame + b";"

    cut = load(whole[: len(screen) + 2 * len(frame) + 5])

    assert load(whole).num_frames == 3
    assert cut.num_frames == 2
    assert cut.pixel_id == load(whole).pixel_id


# Whole or not at all


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_cut_files_are_refused(fmt, share):
    data = encode(picture(64, 48), fmt)

    with pytest.raises(BadMedia) as caught:
        decode_rgb(data[: int(len(data) * share)])

    assert caught.value.reason in ("truncated", "corrupt")


@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "PPM", "WEBP"])
def test_a_cut_in_the_data_is_called_truncated(fmt):
    data = encode(picture(64, 48), fmt)

    with pytest.raises(BadMedia, match="truncated"):
        decode_rgb(data[: int(len(data) * 0.9)] if fmt != "TIFF" else data[:-500])


def test_refusals_do_not_depend_on_addresses_or_pillows_words():
    data = encode(picture(64, 48), "PNG")[:40]

    details = set()
    for _ in range(2):
        with pytest.raises(BadMedia) as caught:
            decode_rgb(data)
        details.add(str(caught.value))

    assert details == {"corrupt: the PNG header cannot be read: damaged, or a rare variant"}


def test_a_process_that_fills_up_truncated_pictures_is_refused(monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)

    with pytest.raises(ConfigError, match="fill up truncated"):
        decode_rgb(encode(picture(), "PNG"))


# The gate to Pillow


def malformed_mpo():
    return with_segments(
        encode(picture(), "JPEG"), jpeg_segment(0xE2, b"MPF\0II*\0\x08\0\0\0\x01\0\x01\xb0\4\0\1\0\0\0\2\0\0\0\0\0")
    )


def test_no_warning_of_pillow_escapes():
    data = with_chunks(encode(picture(), "PNG"), png_chunk(b"acTL", bytes(8)))

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        opened(data)
        assert len(seen) == 1
        assert same(decode_rgb(data), picture())
        assert decode_rgb(malformed_mpo()).size == (24, 16)
        assert len(seen) == 1


def test_threads_decode_together_and_leave_the_filters_as_they_were():
    data = with_chunks(encode(picture(200, 200), "PNG"), png_chunk(b"acTL", bytes(8)))
    before, results = list(warnings.filters), []

    def work():
        results.extend(same(decode_rgb(data), picture(200, 200)) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [True] * 80
    assert list(warnings.filters) == before


def test_a_memoryview_decodes_as_its_bytes_do():
    data = encode(picture(), "PNG")

    assert same(decode_rgb(memoryview(b"xx" + data)[2:]), picture())


def test_the_picture_carries_no_metadata():
    data = encode(picture(), "PNG", icc_profile=swapped_profile(), dpi=(300, 300))

    assert decode_rgb(data).info == {}
    assert decode_rgb(encode(picture(), "JPEG")).info == {}


def test_a_webp_chunk_that_no_one_knows_is_passed_over():
    data = encode(picture(), "WEBP", lossless=True)
    data = data[:4] + struct.pack("<I", len(data)) + data[8:] + riff_chunk(b"junk", b"")

    assert same(decode_rgb(data), picture())
