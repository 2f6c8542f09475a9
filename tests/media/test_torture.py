"""Hostile and odd files: kept with their size, or excluded for a documented reason; nothing crashes.

expected.jsonl tells what one version of Pillow was seen to do, in part on a second try: Pillow says nothing of damage the
second time and hands out what it has, the rest black. So a row that `loads` may be excluded as broken where the Pillow of
this process does not load it at the first try (docs/ingest/pictures.md; the last test makes such files). And a JPEG that
Pillow fills up with grey loads for it, not for us.
"""

import hashlib
import io
import json

import pytest
from PIL import Image

from shardkit.media.decode import decode_rgb
from shardkit.media.limits import MediaLimits
from shardkit.media.load import REASONS, BadMedia, load
from tests.media.builders import encode, opened, picture


def complaint(row, data):
    """What is wrong with our answer to a file, or None."""
    try:
        media = load(data)
    except BadMedia as error:
        return None if may_be_excluded(row, data, error) else f"excluded: {error}"
    if not row.get("loads"):
        return f"kept, though {row.get('load_error') or row.get('open_error')}"
    turned = row.get("exif_orientation") in (5, 6, 7, 8) and row["format"] != "TIFF"
    width, height = reversed(row["size"]) if turned else row["size"]
    if (media.width, media.height) != (width, height):
        return f"size {media.width} x {media.height}, not {width} x {height}"
    if media.media_type != "image/jpeg" and media.num_frames != row["frames"]:
        return f"{media.num_frames} frames, not {row['frames']}"
    stored = decode_rgb(media.stored)
    if stored.size != (width, height) or stored.tobytes() != decode_rgb(data).tobytes():
        return "the stored bytes give other pixels"
    if load(media.stored).stored != media.stored:
        return "stripped again, the bytes change"
    return None


def may_be_excluded(row, data, error):
    if error.reason not in REASONS or not error.detail:
        return False
    if not row.get("loads") or error.reason == "unsupported_format":
        return True
    width, height = row["size"]
    limits = MediaLimits()
    over = width * height > limits.max_pixels or max(width, height) > limits.max_aspect * min(width, height)
    is_over = error.reason in ("too_many_pixels", "extreme_aspect") and over
    is_broken = error.reason in ("corrupt", "truncated") and not loads_here(data)
    return is_over or is_broken or (row["format"] == "JPEG" and "an end mark hides it" in error.detail)


def loads_here(data):
    try:
        opened(data)
    except (OSError, SyntaxError, ValueError):
        return False
    return True


def test_every_file_is_kept_with_its_size_or_excluded_for_a_reason(torture):
    rows = [json.loads(line) for line in (torture / "expected.jsonl").read_text().splitlines()]
    complaints = {}
    for row in rows:
        data = (torture / row["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == row["sha256"]
        wrong = complaint(row, data)
        if wrong:
            complaints[row["file"]] = wrong

    assert complaints == {}
    assert rows


def test_an_unsupported_format_is_called_so_and_not_broken(torture):
    rows = [json.loads(line) for line in (torture / "expected.jsonl").read_text().splitlines()]

    for row in rows:
        if row.get("format") in ("TGA", "ICO", "WMF", "PSD"):
            with pytest.raises(BadMedia, match="unsupported_format"):
                load((torture / row["file"]).read_bytes())


@pytest.mark.parametrize(("fmt", "kept"), [("PNG", 0.3), ("PNG", 0.8), ("JPEG2000", 0.5)])
def test_what_loads_at_a_second_try_only_is_excluded(fmt, kept):
    data = bytearray(encode(picture(64, 64), fmt))
    start = int(len(data) * kept)
    if fmt == "PNG":
        data[start : start + 40] = b"\xff" * 40
    else:
        del data[start:]
    image = Image.open(io.BytesIO(bytes(data)))
    with pytest.raises((OSError, ValueError)):
        image.load()
    image.load()

    with pytest.raises(BadMedia) as bad:
        load(bytes(data))

    assert bad.value.reason in ("corrupt", "truncated")
    assert may_be_excluded({"loads": True, "size": [64, 64], "format": fmt}, bytes(data), bad.value)
