"""Every format keeps both promises: the same pixels from what is stored, and nothing more to take on a second pass."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import features

from shardkit.media.decode import decode_rgb
from shardkit.media.load import BadMedia, load
from shardkit.media.strip import STRIPPERS
from tests.media.builders import SECRET
from tests.media.strip.builders import RICH, avif

FILES = {name: build() for name, build in RICH.items()}
if "avif" in features.get_supported():
    FILES["AVIF"] = avif()


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_picture_goes_and_the_pixels_of_every_frame_stay(name):
    data = FILES[name]
    media = load(data)

    assert SECRET in data
    assert SECRET not in media.stored
    assert media.removed
    # Pages of a TIFF are stored one by one: test_tiff_page.py has the others.
    num_frames = 1 if media.media_type == "image/tiff" else media.num_frames
    for frame in range(num_frames):
        assert decode_rgb(media.stored, frame).tobytes() == decode_rgb(data, frame).tobytes()
    assert load(media.stored).num_frames == num_frames


@pytest.mark.parametrize("name", FILES)
def test_stripping_again_changes_nothing(name):
    once = load(FILES[name])

    twice = load(once.stored)

    assert twice.stored == once.stored
    assert (twice.removed, twice.num_removed_bytes) == ((), 0)
    assert (twice.pixel_id, twice.width, twice.height) == (once.pixel_id, once.width, once.height)


def test_every_stripper_is_tried():
    taken = {load(data).media_type for data in FILES.values()}

    assert {kind.media_type for kind in STRIPPERS} - taken <= {"image/heic", "image/j2c", "image/avif"}


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(FILES)), st.integers(0, 2**32))
def test_damaged_files_keep_both_promises_or_are_refused(name, seed):
    data = damaged(FILES[name], random.Random(seed))
    try:
        media = load(data)
    except BadMedia:
        return

    assert decode_rgb(media.stored).tobytes() == decode_rgb(data).tobytes()
    again = load(media.stored)
    assert (again.stored, again.removed) == (media.stored, ())


def damaged(data, rng):
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 200))
        kind = rng.randrange(5)
        if kind == 0:
            out[at] = rng.choice((0, 1, 0x21, 0x2C, 0x3B, 0xD9, 0xDA, 0xE1, 0xFF))
        elif kind == 1:
            out[at] = rng.randrange(256)
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif kind == 3:
            del out[at : at + rng.randrange(1, 20)]
        else:
            out += rng.randbytes(20)
    return bytes(out)


def test_damage_leaves_enough_files_to_prove_something():
    kept = stripped = 0
    for seed in range(300):
        try:
            media = load(damaged(FILES[sorted(FILES)[seed % len(FILES)]], random.Random(seed)))
        except BadMedia:
            continue
        kept += 1
        stripped += bool(media.removed)

    assert kept > 100
    assert stripped > 80
