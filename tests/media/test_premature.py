"""A cut JPEG with an end mark put behind the cut: libjpeg fills it up with grey, we refuse it."""

import pytest
from PIL import Image

from shardkit.media.load import BadMedia, load
from tests.media.builders import encode, opened, picture


def cut(data, share):
    return data[: int(len(data) * share)] + b"\xff\xd9"


@pytest.mark.parametrize("share", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{"subsampling": 0}, {"subsampling": 2}, {"restart_marker_blocks": 2}])
def test_a_picture_filled_up_with_grey_is_refused(mode, share, options):
    data = cut(encode(picture(96, 64).convert(mode), "JPEG", quality=95, **options), share)
    assert opened(data).size == (96, 64)

    with pytest.raises(
        BadMedia, match="truncated: the JPEG data ends before the picture does, and an end mark hides it"
    ):
        load(data)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}])
def test_a_picture_that_is_grey_itself_is_taken(mode, options):
    grey = Image.new("RGB", (40, 40), (128, 128, 128))
    grey.paste(picture(20, 20))
    image = (
        grey.convert(mode)
        if mode != "CMYK"
        else Image.merge("CMYK", [Image.new("L", (40, 40), 128)] * 3 + [Image.new("L", (40, 40), 127)])
    )
    data = encode(image, "JPEG", quality=95, **options)

    assert load(data).width == 40


def test_the_grey_of_the_honest_pictures_is_the_one_that_is_looked_for():
    data = encode(Image.new("RGB", (40, 40), (128, 128, 128)), "JPEG")

    assert opened(data).getpixel((39, 39)) == (128, 128, 128)
