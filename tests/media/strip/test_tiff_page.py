"""A page of a TIFF as a file of its own: the same compressed bytes, the same pixels, nothing of its neighbours."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardkit.media.decode import decode_rgb
from shardkit.media.load import BadMedia, Media, load, load_pages
from shardkit.media.strip.tiff_page import StrangePageError, cut_page, open_at, page_places
from tests.media.builders import SECRET, encode, opened, picture, swapped_profile, xmp
from tests.media.strip.builders import grey_page, old_jpeg_page, tiff_of


def by_pillow(images=None, **options):
    first, *others = images or [picture(40, 32, seed) for seed in range(3)]
    return encode(first, "TIFF", save_all=True, append_images=others, **options)


def planar(seed):
    tags, pixels = grey_page(24, 48, seed)
    tags |= {257: (3, [16]), 258: (3, [8, 8, 8]), 262: (3, [2]), 277: (3, [3]), 278: (3, [16]), 284: (3, [2])}
    tags |= {273: (4, [("at", 384 * plane) for plane in range(3)]), 279: (4, [384] * 3)}
    return tags, pixels


def tiled(seed):
    tags, pixels = grey_page(32, 32, seed)
    del tags[273], tags[278], tags[279]
    tags |= {322: (3, [16]), 323: (3, [16]), 324: (4, [("at", 256 * tile) for tile in range(4)]), 325: (4, [256] * 4)}
    return tags, pixels


def bilevel():
    return [picture(64, 48, seed).convert("1") for seed in range(3)]


FILES = {
    "raw": lambda: by_pillow(),
    "LZW": lambda: by_pillow(compression="tiff_lzw"),
    "deflate BigTIFF": lambda: by_pillow(compression="tiff_adobe_deflate", big_tiff=True),
    "JPEG with tables": lambda: by_pillow(compression="jpeg"),
    "G4": lambda: by_pillow(bilevel(), compression="group4"),
    "little-endian": lambda: tiff_of([grey_page(24, 16, seed) for seed in range(3)]),
    "big-endian": lambda: tiff_of([grey_page(24, 16, seed) for seed in range(3)], ">"),
    "BigTIFF": lambda: tiff_of([grey_page(24, 16, seed) for seed in range(3)], big=True),
    "planar": lambda: tiff_of([planar(seed) for seed in range(3)]),
    "tiles": lambda: tiff_of([tiled(seed) for seed in range(3)]),
    "old JPEG": lambda: tiff_of([old_jpeg_page(seed) for seed in range(3)]),
    "mixed sizes": lambda: by_pillow([picture(20 + 9 * seed, 16, seed) for seed in range(3)]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_page_is_cut_out_with_its_pixels_and_its_compressed_bytes(name):
    data = FILES[name]()

    pages = load_pages(data)

    assert [page.frame for page in pages] == [0, 1, 2]
    assert all("page_not_cut" not in page.changes and "second_picture" in page.removed for page in pages)
    assert len({page.pixel_id for page in pages}) == 3
    for number, page in enumerate(pages):
        assert decode_rgb(page.stored).tobytes() == decode_rgb(data, number).tobytes()
        assert strips(page.stored) == strips(data, number)
        assert opened(page.stored).n_frames == 1
        assert page.stored[:4] == data[:4]
    assert sum(len(page.stored) for page in pages) < 1.05 * len(data)
    assert all(page.num_removed_bytes == len(data) - len(page.stored) for page in pages)


def strips(data, number=0):
    """The bytes of the strips or tiles of a page, as Pillow's directory tells where they lie."""
    image = opened(data)
    image.seek(number)
    tags = image.tag_v2
    at, size = (273, 279) if 273 in tags else (324, 325)
    return [data[start : start + length] for start, length in zip(tags[at], tags[size], strict=True)]


@pytest.mark.parametrize("name", FILES)
def test_a_page_is_what_it_is_alone_and_its_file_is_not_changed_by_another_pass(name):
    data = FILES[name]()

    for number, page in enumerate(load_pages(data)):
        assert load(data, frame=number) == page
        again = load(page.stored)
        assert (again.stored, again.removed, again.pixel_id) == (page.stored, (), page.pixel_id)


def test_metadata_goes_by_name_and_colour_and_orientation_stay():
    pages = [grey_page(24, 16, seed, t315=(2, SECRET), t700=(1, xmp(3)), t274=(3, [6])) for seed in range(2)]

    one, two = load_pages(tiff_of(pages))

    assert one.removed == two.removed == ("second_picture", "text", "xmp")
    assert SECRET not in one.stored + two.stored
    assert (two.width, two.height, two.orientation) == (16, 24, 6)


def test_a_profile_is_that_of_its_own_page():
    coloured = by_pillow([picture(), picture(seed=1)], icc_profile=swapped_profile())
    profiled = load_pages(coloured)
    plain, pixels = grey_page(24, 16, 1)
    first = grey_page(24, 16, 0, t34675=(7, swapped_profile(b"GRAY")))

    pages = load_pages(tiff_of([first, (plain, pixels)]))

    assert all("icc_to_srgb" in page.changes for page in profiled)
    assert [any(change.startswith("icc") for change in page.changes) for page in pages] == [True, False]
    assert all("page_not_cut" not in page.changes for page in (*profiled, *pages))


def test_with_metadata_kept_the_file_lies_with_its_first_page_and_the_others_keep_their_tags():
    tags = {270: "what it shows", 305: SECRET.decode()}
    data = by_pillow(tiffinfo=tags)

    pages = load_pages(data, keep_metadata=True)

    assert pages[0].stored == data
    assert pages[0].removed == ()
    for number, page in enumerate(pages[1:], 1):
        assert {tag: opened(page.stored).tag_v2[tag] for tag in tags} == tags
        assert page.removed == ("second_picture",)
        assert decode_rgb(page.stored).tobytes() == decode_rgb(data, number).tobytes()
    assert sum(len(page.stored) for page in pages) < 2 * len(data)


def test_with_metadata_kept_the_exif_directory_of_a_page_moves_with_it():
    first = grey_page(24, 16, 0)
    data = bytearray(tiff_of([first, grey_page(24, 16, 1, t34665=(4, [0]))]))
    at = data.index(struct.pack("<HHI", 34665, 4, 1)) + 8
    struct.pack_into("<I", data, at, len(data))
    data += struct.pack("<HHHI", 1, 37500, 7, 9) + struct.pack("<I", len(data) + 18) + bytes(4) + b"maker 123"

    page = load(bytes(data), frame=1, keep_metadata=True)

    assert dict(opened(page.stored).getexif().get_ifd(34665)) == {37500: b"maker 123"}
    assert b"maker" not in load(bytes(data), frame=1).stored


def test_sub_directories_are_second_pictures():
    data = bytearray(tiff_of([grey_page(24, 16, 0), grey_page(24, 16, 1, t330=(4, [0]))]))
    thumbnail = next(page_places(data))
    struct.pack_into("<I", data, data.index(struct.pack("<HHI", 330, 4, 1)) + 8, thumbnail)

    page = load(bytes(data), frame=1)

    assert 330 not in opened(page.stored).tag_v2
    assert len(page.stored) < len(data) / 2 + 100


def test_pages_that_share_their_pixels_each_have_them():
    tags, pixels = grey_page(24, 16, 1)
    data = bytearray(tiff_of([(tags, pixels), (tags | {262: (3, [0])}, b"")]))
    one, two = page_places(data)
    offsets = struct.unpack_from("<I", data, data.index(struct.pack("<HHI", 273, 4, 2), one) + 8)
    struct.pack_into("<I", data, data.index(struct.pack("<HHI", 273, 4, 2), two) + 8, *offsets)

    pages = load_pages(bytes(data))

    assert [page.changes for page in pages] == [("frames_left_out",)] * 2
    assert all(pixels in page.stored for page in pages)
    assert pages[0].pixel_id != pages[1].pixel_id


def test_what_is_stored_of_pages_that_share_their_pixels_has_a_limit(monkeypatch):
    monkeypatch.setattr("shardkit.media.stored._MOST_COPIES", 0)

    first, second = load_pages(tiff_of([grey_page(24, 16, seed) for seed in range(2)]))

    assert isinstance(first, Media)
    assert (second.reason, second.detail) == ("too_many_bytes", "what is stored of the pages grows over 0 bytes")


def test_a_chain_that_bites_its_tail_ends():
    data = bytearray(tiff_of([grey_page(24, 16, seed) for seed in range(2)]))
    one, two = page_places(data)
    struct.pack_into("<I", data, len(data) - 4, one)

    assert list(page_places(data)) == [one, two]
    assert len(load_pages(bytes(data))) == 2


STRANGE = {
    "no byte counts": {"t279": (4, [])},
    "a count of nothing": {"t279": (4, [192, 0])},
    "places of an unknown type": {"t40000": (7, b"x"), "t273": (2, b"PLACES..")},
    "strips behind the end": {"t273": (4, [2**31, 2**31])},
    "more values than the file has": {"t301": (3, [7])},
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_is_not_plain_is_no_page(name):
    data = bytearray(tiff_of([grey_page(24, 16, 0), grey_page(24, 16, 1, **STRANGE[name])]))
    if "values" in name:
        struct.pack_into("<I", data, data.index(struct.pack("<HHI", 301, 3, 1)) + 4, 2**30)

    with pytest.raises(StrangePageError):
        cut_page(bytes(data), list(page_places(data))[1])


def test_a_page_that_cannot_be_cut_is_stored_with_its_file_and_is_its_first_picture():
    # Raw strips are read by their geometry, so decoders do not miss the counts that say too little.
    pages = [grey_page(24, 16, seed, t279=(4, [5, 5])) for seed in range(3)]
    data = tiff_of(pages)

    found = load_pages(data)

    assert [page.changes[-1] for page in found[1:]] == ["metadata_left"] * 2
    for number, page in enumerate(found):
        assert "page_not_cut" in page.changes
        assert page.stored == (open_at(data, list(page_places(data))[number]) if number else data)
        assert decode_rgb(page.stored).tobytes() == decode_rgb(data, number).tobytes()
        assert load(page.stored).stored == page.stored
    assert [page.removed for page in found] == [(), ("second_picture",), ("second_picture",)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 2**32))
def test_damaged_pages_keep_their_pixels_or_are_refused(name, seed):
    rng, data = random.Random(seed), bytearray(FILES[name]())
    tables = [at for place in page_places(data) for at in range(place, min(place + 200, len(data)))]
    for _ in range(rng.choice((1, 1, 2, 4))):
        data[rng.choice(tables) if rng.random() < 0.8 else rng.randrange(len(data))] = rng.choice((0, 1, 7, 255, 64))
    try:
        pages = load_pages(bytes(data))
    except BadMedia:
        return
    for number, page in enumerate(pages):
        if isinstance(page, Media):
            assert decode_rgb(page.stored).tobytes() == decode_rgb(bytes(data), number).tobytes()
            assert load(page.stored).pixel_id == page.pixel_id
