"""PNG: a list of chunks to keep, and nothing behind IEND."""

import pytest

from shardkit.media.formats import PNG
from shardkit.media.orientation import minimal_exif
from shardkit.media.strip import strip
from tests.media.builders import SECRET, encode, picture, png_chunk, raw_png, with_chunks
from tests.media.strip import builders


def plain():
    return encode(picture(), "PNG")


def names(png):
    at, found = 8, []
    while at < len(png):
        found.append(png[at + 4 : at + 8].decode())
        at += 12 + int.from_bytes(png[at : at + 4], "big")
    return found


def test_what_goes_is_named_and_what_stays_is_picture_and_colour():
    stripped = strip(PNG, builders.png(), 6)

    assert list(stripped.removed) == ["background", "chunk", "exif", "resolution", "tail", "text", "time", "xmp"]
    assert names(stripped.data) == ["IHDR", "eXIf", "gAMA", "iCCP", "IDAT", "IEND"]
    assert png_chunk(b"eXIf", minimal_exif(6)) in stripped.data


def test_the_minimal_exif_of_another_tool_stays():
    data = with_chunks(plain(), png_chunk(b"eXIf", minimal_exif(6)))

    assert strip(PNG, data, 6).removed == {}
    assert strip(PNG, data, 6).data == data


def test_palette_transparency_and_frames_stay():
    data = raw_png(2, 1, 8, 3, [b"\0\1"], png_chunk(b"PLTE", bytes(6)), png_chunk(b"tRNS", b"\0\1"))
    assert strip(PNG, data, 1).data == data

    apng = encode(picture(), "PNG", save_all=True, append_images=[picture(seed=1)])
    assert {"acTL", "fcTL", "fdAT"} <= set(names(apng))
    assert strip(PNG, apng, 1).data == apng


@pytest.mark.parametrize("end", [b"", b"\0", b"\0\0\0\4\0\0\0\0", b"\0\0\0\4tEXtab", b"\xff\xff\xff\xfftEXt"])
def test_behind_the_data_a_broken_chunk_ends_the_file(end):
    data = plain()[:-12]

    stripped = strip(PNG, data + end, 1)

    assert stripped.data == data
    assert stripped.removed == ({"tail": len(end)} if end else {})


def test_data_that_lacks_its_last_bytes_stays():
    data = plain()[:-14]

    assert strip(PNG, data, 1).data == data


def test_bytes_behind_the_end_go():
    assert strip(PNG, plain() + SECRET, 1).removed == {"tail": len(SECRET)}
