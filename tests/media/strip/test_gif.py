"""GIF: extensions that are no picture go; where decoders differ, the bytes stay."""

import pytest

from shardkit.media.formats import GIF
from shardkit.media.strip import strip
from tests.media.builders import encode, gif_extension, picture, split_gif, with_extensions
from tests.media.strip import builders

LOOP = gif_extension(0xFF, b"NETSCAPE2.0", b"\1\0\0")
PROFILE = gif_extension(0xFF, b"ICCRGBG1012", b"profile")
COMMENT = gif_extension(0xFE, b"a comment")


def plain():
    return encode(picture().quantize(16), "GIF")


def test_what_goes_is_named_and_loop_and_profile_stay():
    stripped = strip(GIF, builders.gif(), 1)

    assert stripped.data == with_extensions(plain(), LOOP, PROFILE)
    assert list(stripped.removed) == ["application", "comment", "tail", "text", "xmp"]


def test_all_frames_and_their_controls_stay():
    frames = [picture(seed=seed).quantize(16) for seed in range(3)]
    data = encode(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50, loop=0)

    assert strip(GIF, data, 1).data == data
    assert strip(GIF, with_extensions(data, COMMENT), 1).data == data


def test_a_comment_between_frames_goes():
    screen, frame = split_gif(plain())

    assert strip(GIF, screen + frame + COMMENT + frame + b";", 1).data == screen + 2 * frame + b";"


@pytest.mark.parametrize(
    "odd",
    [b"\x00", b"?", gif_extension(0xF9), gif_extension(0xFF), gif_extension(0xFF, b"NETSCAPE2.0"), gif_extension(0x99)],
)
def test_from_where_decoders_differ_the_bytes_stay(odd):
    data = with_extensions(plain(), COMMENT, odd, COMMENT)

    assert strip(GIF, data, 1).data == with_extensions(plain(), odd, COMMENT)
    assert not strip(GIF, data, 1).is_sure
    assert strip(GIF, with_extensions(plain(), COMMENT), 1).is_sure


def test_a_file_without_its_end_mark_stays():
    data = plain()[:-1]

    assert strip(GIF, data, 1).data == data
    assert strip(GIF, data[:-3], 1).data == data[:-3]
