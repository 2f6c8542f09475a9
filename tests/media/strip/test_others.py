"""PNM, JPEG 2000, AVIF and HEIC."""

import pytest
from PIL import features

from shardkit.media.decode import decode_rgb
from shardkit.media.formats import AVIF, HEIF, J2C, JP2, PNM
from shardkit.media.load import load
from shardkit.media.strip import strip
from tests.media.builders import SECRET, encode, opened, picture, xmp
from tests.media.strip import builders
from tests.media.strip.builders import box


@pytest.mark.parametrize(
    ("rich", "plain", "removed"),
    [
        (b"P5 2 1 255\nabtail", b"P5 2 1 255\nab", {"tail": 4}),
        (b"P5\n# by me\n2 1\n#x\n255\nab", b"P5\n2 1\n255\nab", {"comment": 11}),
        (b"P5 2#a\n 1 255 ab", b"P5 2 1 255 ab", {"comment": 3}),
        (b"P5 2 1 65535\nabcd#", b"P5 2 1 65535\nabcd", {"tail": 1}),
        (b"P4 9 1\nabP4 9 1\nab", b"P4 9 1\nab", {"tail": 9}),
        (b"P6 1 1 255\nabc\n", b"P6 1 1 255\nabc", {"tail": 1}),
        (b"P5 2 1 255\n#a", b"P5 2 1 255\n#a", {}),
        (b"P2 2 1 255 #x\n1 2", b"P2 2 1 255 1 2", {"comment": 3}),
        (b"P1 2 1\n1 #x\n0\n", b"P1 2 1\n1 0\n", {"comment": 3}),
    ],
)
def test_pnm_comments_and_tails_go(rich, plain, removed):
    stripped = strip(PNM, rich, 1)

    assert (stripped.data, stripped.removed) == (plain, removed)
    assert decode_rgb(rich).tobytes() == decode_rgb(plain).tobytes()


def test_boxes_of_a_jp2_that_hold_no_picture_go():
    plain = encode(picture(), "JPEG2000")

    stripped = strip(JP2, builders.jp2() + box(b"xml ", xmp()), 1)

    assert stripped.data == plain
    assert list(stripped.removed) == ["box", "tail", "xmp"]


def test_a_code_stream_up_to_the_end_of_the_file_stays():
    plain = encode(picture(), "JPEG2000")
    at = plain.index(b"jp2c") - 4
    open_ended = plain[:at] + b"\0\0\0\0" + plain[at + 4 :]

    assert strip(JP2, open_ended, 1).data == open_ended
    assert load(plain[at + 8 :]).media_type == "image/j2c"
    assert strip(J2C, plain[at + 8 :], 1).removed == {}


@pytest.mark.skipif("avif" not in features.get_supported(), reason="this Pillow has no AVIF decoder")
def test_exif_and_xmp_of_an_avif_go_and_its_turn_stays():
    data = builders.avif()

    media = load(data)

    assert media.removed == ("exif", "xmp")
    assert len(media.stored) == len(data)
    assert SECRET not in media.stored
    assert "xmp" not in opened(media.stored).info
    assert (media.width, media.height) == (16, 24)
    assert strip(AVIF, media.stored, 6).removed == {}


def heic(exif_at=None, version=0):
    """The boxes of a HEIC file without a decodable picture: two items, the second one EXIF."""
    infe = [
        box(b"infe", b"\2\0\0\0" + bytes([0, number, 0, 0]) + kind + b"\0")
        for number, kind in ((1, b"hvc1"), (2, b"Exif"))
    ]
    iinf = box(b"iinf", b"\0\0\0\0\0\2" + b"".join(infe))

    def file(mdat_at):
        places = (mdat_at, mdat_at + 8 if exif_at is None else exif_at)
        rows = b"".join(
            bytes([0, number])
            + (b"\0\0" if version else b"")
            + b"\0\0\0\1"
            + place.to_bytes(4, "big")
            + size.to_bytes(4, "big")
            for number, place, size in ((1, places[0], 8), (2, places[1], len(SECRET)))
        )
        iloc = box(b"iloc", bytes([version, 0, 0, 0, 0x44, 0, 0, 2]) + rows)
        return (
            box(b"ftyp", b"heic\0\0\0\0heic")
            + box(b"meta", b"\0\0\0\0" + iloc + iinf)
            + box(b"mdat", b"PICTURE." + SECRET)
        )

    return file(len(file(0)) - 8 - len(SECRET))


@pytest.mark.parametrize("version", [0, 1])
def test_exif_of_a_heic_is_blanked_where_it_lies(version):
    data = heic(version=version)

    stripped = strip(HEIF, data, 1)

    assert stripped.data == data.replace(SECRET, bytes(len(SECRET))).replace(b"Exif", b"skip")
    assert stripped.removed == {"exif": len(SECRET)}


def test_items_that_share_their_bytes_or_lie_in_the_tree_stay():
    data = heic()
    shared, in_tree = heic(exif_at=data.index(b"PICTURE.") + 4), heic(exif_at=40)

    for data in (shared, in_tree):
        stripped = strip(HEIF, data, 1)
        assert (stripped.data, stripped.removed, stripped.is_sure) == (data, {}, False)


@pytest.mark.parametrize(
    "broken", [b"\0\0\0\x08ftyp", heic()[:60], heic().replace(b"iloc", b"none"), heic().replace(b"infe\2", b"infe\1")]
)
def test_a_tree_that_cannot_be_followed_stays(broken):
    assert strip(HEIF, broken, 1).data == broken
    assert not strip(HEIF, broken, 1).is_sure
