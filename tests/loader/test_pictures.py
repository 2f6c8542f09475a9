"""Stored pictures to pixels: the recorded decoder to the bit, the fast one by a hair, both bound in states."""

import io
import json

import numpy as np
import pytest

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import Promise, StreamingLoader, pictures
from shardkit.media import turbo
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import PROCESSORS, Letterbox, Square
from shardkit.media.processors.augment import View, view_of
from tests.loader.builders import seen
from tests.loader.conftest import ingest, tokenize
from tests.media.test_turbo import jpeg, picture

ON_HOST = ("pillow", "turbo")
"""Decoders that leave nothing to a device."""
SIZES = [(30, 40), (224, 224), (480, 640), (900, 1300), (1800, 1200)]


def put(processor, decoder, data, chance=None):
    """What a decoder makes of a stored picture."""
    image = decode_rgb(data)
    geometry = processor.geometry(image.height, image.width)
    out = np.full((geometry.height, geometry.width, 3), 77, np.uint8)
    pictures.Pictures(processor, decoder).put(data, out, geometry.shown, chance)
    return out


def psnr(one, other):
    return 10 * np.log10(255**2 / max(((one.astype(float) - other) ** 2).mean(), 1e-9))


def png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("fast", [True, False], ids=["simplejpeg", "without simplejpeg"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_pillow_is_the_canonical_pixels(name, fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(turbo, "is_exact", lambda: False)
    processor = PROCESSORS[name]()
    for height, width in SIZES[:3]:
        for data in (
            jpeg(picture(height, width)),
            png(picture(height, width)),
            jpeg(picture(height, width).convert("L")),
        ):
            assert np.array_equal(put(processor, "pillow", data), processor.pixels(decode_rgb(data)))


@pytest.mark.parametrize("resampling", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_turbo_is_the_same_by_a_hair(name, resampling):
    pytest.importorskip("simplejpeg")
    processor = PROCESSORS[name](resampling=resampling)
    for height, width in SIZES:
        # As smooth as a photograph at its full size.
        image = picture(height // 8 + 9, width // 8 + 9).resize((width, height))
        for data in (jpeg(image), png(image)):
            assert psnr(put(processor, "turbo", data), processor.pixels(decode_rgb(data))) > 35


def test_what_hangs_over_is_filled_up():
    processor = Letterbox(image_size=56, pad_value=9)
    for decoder in ON_HOST:
        out = put(processor, decoder, jpeg(picture(200, 400)))
        assert (out[28:] == 9).all()
        assert len(np.unique(out[:28])) > 9


def test_another_size_than_the_slots_were_made_for_is_refused():
    out = np.zeros((56, 56, 3), np.uint8)
    with pytest.raises(pictures.SlotMismatchError, match="is 84 x 84 in 84 x 84 after processing"):
        pictures.Pictures(Square(image_size=84), "pillow").put(jpeg(picture(90, 90)), out, (56, 56), None)


@pytest.mark.parametrize("decoder", ON_HOST)
def test_views_are_parts_of_the_picture(decoder):
    data = jpeg(picture(90, 120).resize((400, 300)), quality=95)
    processor = Square(image_size=56, crop_percent=30, mirror=True)
    whole = decode_rgb(data)
    for chance in range(20):
        view = view_of(processor, 300, 400, chance)
        expected = processor.pixels(view.of_image(whole), processor.geometry(300, 400))
        found = put(processor, decoder, data, chance)
        assert np.array_equal(found, expected) if decoder == "pillow" else psnr(found, expected) > 35


def test_views_are_whole_numbers_within_the_picture():
    plain = Square()
    assert view_of(plain, 100, 50, 7) is None
    processor = Square(crop_percent=25, mirror=True)
    shares, mirrored = [], 0
    for chance in range(2000):
        view = view_of(processor, 301, 207, chance)
        assert view == view_of(processor, 301, 207, chance)
        assert 0 <= view.top <= 301 - view.height
        assert 0 <= view.left <= 207 - view.width
        assert abs(view.height * 207 - view.width * 301) <= 301
        shares.append(view.height * view.width / (301 * 207))
        mirrored += view.mirrored
    assert 0.24 < min(shares) < 0.27
    assert max(shares) > 0.97
    assert abs(np.mean(shares) - 0.625) < 0.02
    assert 900 < mirrored < 1100
    assert view_of(processor, 1, 1, 3) == View(
        top=0, left=0, height=1, width=1, mirrored=view_of(processor, 1, 1, 3).mirrored
    )
    with pytest.raises(ConfigError, match="crop_percent of the square processor is 101"):
        Square(crop_percent=101)


def test_views_are_part_of_the_recipe():
    assert "view_version" not in Square().recipe()
    assert Square(mirror=True).recipe()["view_version"] == 1


def test_a_state_is_replayable_with_the_decoder_it_was_saved_with(tokens):
    pytest.importorskip("simplejpeg")
    settings = {"max_tokens": 256, "global_batch": 2}
    with StreamingLoader(tokens, decoder="turbo", **settings) as loader:
        stream = iter(loader)
        next(stream)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = list(stream)

    with StreamingLoader(tokens, decoder="turbo", **settings) as loader:
        assert loader.load_state_dict(state) is Promise.REPLAYABLE
        assert seen(loader) == seen(rest)
    with StreamingLoader(tokens, **settings) as loader:
        with pytest.raises(ResumeError, match=r'decoder is "turbo-rgb/1 \(simplejpeg .*" there, "pillow-rgb/1" here'):
            loader.load_state_dict(state)
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
        assert [batch.batch_id for batch in loader] == [batch.batch_id for batch in rest]


@pytest.mark.parametrize("form", ["arrow", "tar"])
def test_plain_jpegs_of_a_dataset_never_go_to_pillow(tmp_path, monkeypatch, form):
    pytest.importorskip("simplejpeg")
    raw = tmp_path / "raw"
    raw.mkdir()
    for number in range(6):
        (raw / f"{number}.jpg").write_bytes(jpeg(picture(90, 70 + number)))
    rows = [{"text": f"<image> {number}", "images": [f"{number}.jpg"]} for number in range(6)]
    (raw / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tokens = tokenize(ingest(raw / "rows.jsonl", tmp_path / "set", "--shards", form), out=tmp_path / "tokens")
    monkeypatch.setattr(pictures, "decode_rgb", None)

    for decoder in pictures.DECODERS:
        with StreamingLoader(tokens, max_tokens=256, tail="pad", decoder=decoder) as loader:
            assert sum(len(batch.example_ids) for batch in loader) == 6


def test_turbo_without_simplejpeg_is_refused(tokens, monkeypatch):
    monkeypatch.setattr(turbo, "installed", lambda: False)
    with pytest.raises(ConfigError, match="the decoder turbo needs simplejpeg"):
        StreamingLoader(tokens, max_tokens=256, decoder="turbo")


def test_memory_of_threads_is_their_own():
    from concurrent.futures import ThreadPoolExecutor

    processor = Square(image_size=112)
    data = [jpeg(picture(200 + 10 * number, 300, number)) for number in range(16)]
    expected = [processor.pixels(decode_rgb(one)) for one in data]
    shared = pictures.Pictures(processor, "pillow")

    def work(number):
        out = np.zeros((112, 112, 3), np.uint8)
        shared.put(data[number % 16], out, (112, 112), None)
        return np.array_equal(out, expected[number % 16])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))
