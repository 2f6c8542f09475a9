"""Pictures that are decoded where their batch is built: the geometry of the others, their pixels by a hair, fewer bytes."""

import io
import json
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from shardkit.errors import ConfigError, ResumeError, SourceError
from shardkit.loader import Promise, StreamingLoader, jpegs, pictures, unpack
from shardkit.loader.batch import PixelForm, lay_out
from shardkit.media import turbo
from shardkit.media.decode import decode_rgb
from shardkit.media.processors import PROCESSORS, Letterbox, Square
from shardkit.media.processors.augment import view_of
from shardkit.media.reasons import BadMedia
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch
from tests.loader.conftest import ingest, tokenize
from tests.media.test_turbo import jpeg, picture

pytest.importorskip("simplejpeg")

CPU = torch.device("cpu")


def smooth(height, width, seed=0):
    """As smooth as a photograph at its full size."""
    return picture(height // 8 + 9, width // 8 + 9, seed).resize((width, height))


def png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def turned(image):
    exif = Image.Exif()
    exif[0x0112] = 6
    return jpeg(image, exif=exif)


def host_batch(processor, stored, chance=None, on_bad="raise"):
    """One sequence with a slot for each stored picture, as an assembler makes it."""
    sizes = [decode_rgb(data).size for data in stored]
    slots = []
    for number, (width, height) in enumerate(sizes):
        found = processor.geometry(height, width)
        slots.append(
            Slot(
                start=number,
                count=1,
                image=number,
                height=found.height,
                width=found.width,
                used_height=found.shown[0],
                used_width=found.shown[1],
            )
        )
    other = Sequence(input_ids=np.arange(3, dtype=np.uint16), objectives=bytes([0, 1, 1]))
    length = len(stored) + 2
    own = Sequence(
        input_ids=np.arange(length, dtype=np.uint16), objectives=bytes([0] + [1] * (length - 1)), slots=tuple(slots)
    )
    host, _ = make_host_batch([[other, own]], np.random.default_rng(0))
    buffers = lay_out([[other, own]], np.zeros(7, np.int64), form=PixelForm())
    put = pictures.Pictures(processor, "device").put
    left = [
        put(data, place, (slot.used_height, slot.used_width), chance)
        for data, place, slot in zip(stored, buffers.places, slots, strict=True)
    ]
    host = replace(host, pixels=buffers.pixels)
    wheres = [f"made:{number}" for number in range(len(stored))]
    decoder = jpegs.identity("device", CPU)
    return jpegs.encode(host, buffers.places, left, wheres, on_bad=on_bad, decoder=decoder), left


def pixels_of(batch):
    return [pixels for pack in unpack(batch) for one in pack for pixels in one.pixels]


def psnr(one, other):
    return 10 * np.log10(255**2 / max(((one.astype(float) - other) ** 2).mean(), 1e-9))


@pytest.mark.parametrize("resampling", ["bilinear", "bicubic"])
@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_are_pillows_by_a_hair_and_those_of_others_to_the_bit(name, resampling):
    processor = PROCESSORS[name](resampling=resampling)
    plain = [
        jpeg(smooth(30, 40)),
        jpeg(smooth(224, 224), progressive=True),
        jpeg(smooth(480, 640).convert("L")),
        jpeg(smooth(900, 300), subsampling=0),
        jpeg(picture(300, 1)),
        jpeg(picture(1, 150)),
    ]
    others = [
        png(smooth(50, 60)),
        turned(smooth(90, 40)),
        jpeg(smooth(70, 50).convert("CMYK")),
        jpeg(smooth(64, 64))[:-2] + b"\xff\xd9\0",
        png(smooth(20, 21)),
    ]
    stored = [part for pair in zip(plain, [*others, png(smooth(9, 9))], strict=True) for part in pair]
    host, left = host_batch(processor, stored)
    assert [one is not None for one in left] == [True, False] * 6
    found = pixels_of(host.to_device())
    for number, (data, pixels) in enumerate(zip(stored, found, strict=True)):
        expected = processor.pixels(decode_rgb(data))
        assert pixels.shape == expected.shape
        if number % 2:
            assert np.array_equal(pixels, expected)
        else:
            assert psnr(pixels, expected) > 45, number
            geometry = processor.geometry(*decode_rgb(data).size[::-1])
            assert np.array_equal(pixels[geometry.shown[0] :], expected[geometry.shown[0] :])


def test_the_bytes_of_the_files_cross_the_bus():
    stored = [jpeg(smooth(480, 640, seed)) for seed in range(4)]
    host, _ = host_batch(Square(image_size=448), stored)
    assert len(host.pixels) == sum(-(-len(data) // 16) * 16 for data in stored)
    assert host.num_bytes == host.meta.nbytes + len(host.pixels) < 4 * 448 * 448 * 3 / 8
    assert [bytes(host.pixels[part].numpy()) for part in host.encoded.ranges] == stored
    assert len(host.to_device().pixels) == 4 * 448 * 448 * 3


def test_filters_that_torch_lacks_and_pictures_that_shrink_much_are_left_to_the_host():
    for processor, stored in (
        (Square(resampling="lanczos"), jpeg(smooth(300, 300))),
        (Square(image_size=28), jpeg(smooth(28 * 32 + 1, 60))),
    ):
        out = np.zeros((processor.image_size,) * 2 + (3,), np.uint8)
        put = pictures.Pictures(processor, "device").put
        assert put(stored, out, (processor.image_size,) * 2, None) is None
        assert np.array_equal(out, processor.pixels(decode_rgb(stored)))


def test_views_are_those_of_the_other_decoders():
    processor = Letterbox(image_size=56, crop_percent=30, mirror=True, pad_value=9)
    data = jpeg(smooth(300, 400), quality=95)
    whole, mirrored = decode_rgb(data), 0
    for chance in range(12):
        view = view_of(processor, 300, 400, chance)
        expected = processor.pixels(view.of_image(whole), processor.geometry(300, 400))
        (found,) = pixels_of(host_batch(processor, [data], chance)[0].to_device())
        assert psnr(found, expected) > 40
        assert (found[42:] == 9).all()
        mirrored += view.mirrored
    assert 0 < mirrored < 12


def test_many_pictures_are_decoded_in_parts(monkeypatch):
    stored = [jpeg(smooth(40, 50, seed)) for seed in range(7)]
    host, _ = host_batch(Square(image_size=28), stored)
    whole, asked = host.to_device(), []
    decoder = jpegs.decoder_of(CPU)
    own = decoder.decode
    monkeypatch.setattr(jpegs, "_AT_ONCE", 5000)
    monkeypatch.setattr(decoder, "decode", lambda parts: asked.append(len(parts)) or own(parts))
    assert torch.equal(host.to_device().pixels, whole.pixels)
    assert asked == [2, 2, 2, 1]


# ------------------------------------------------------------------ what cannot be decoded
def test_what_the_device_refuses_goes_to_pillow(monkeypatch):
    stored = [jpeg(smooth(60, 80, seed)) for seed in range(2)]
    processor = Square(image_size=56)
    host, _ = host_batch(processor, stored)
    monkeypatch.setattr(jpegs.decoder_of(CPU), "decode", lambda parts: [None] * len(parts))
    for found, data in zip(pixels_of(host.to_device()), stored, strict=True):
        assert np.array_equal(found, processor.pixels(decode_rgb(data)))
    # Another size than the header says is none of this picture.
    monkeypatch.setattr(
        jpegs.decoder_of(CPU), "decode", lambda parts: [torch.zeros(3, 9, 9, dtype=torch.uint8)] * len(parts)
    )
    assert np.array_equal(pixels_of(host.to_device())[1], processor.pixels(decode_rgb(stored[1])))


def test_a_picture_that_nobody_decodes_stops_the_run_or_is_masked(monkeypatch):
    stored = [jpeg(smooth(60, 80, seed)) for seed in range(2)]
    raising, masking = (
        host_batch(Square(image_size=56), stored, on_bad=on_bad)[0] for on_bad in ("raise", "quarantine")
    )
    own = jpegs.decoder_of(CPU).decode
    monkeypatch.setattr(jpegs.decoder_of(CPU), "decode", lambda parts: [own(parts)[0], None])

    def corrupt(*_):
        raise BadMedia("corrupt", "made so")

    monkeypatch.setattr(pictures.turbo, "is_exact", lambda: False)
    monkeypatch.setattr(pictures, "decode_rgb", corrupt)
    with pytest.raises(SourceError, match="image 1 cannot be decoded") as caught:
        raising.to_device()
    assert caught.value.where == "made:1"
    before = masking.meta.clone()
    batch = masking.to_device()
    assert torch.equal(masking.meta, before)
    first, second = (one for pack in unpack(batch) for one in pack)
    assert set(first.sequence.objectives) == {0, 1}
    assert set(second.sequence.objectives) == {0}
    assert second.pixels[0].any()
    assert not second.pixels[1].any()
    (entry,) = batch.info.quarantined
    assert (entry.example_id, entry.image, entry.reason, entry.row) == ("example 1", 1, "corrupt", 1)


# ------------------------------------------------------------------ which decoder
def test_a_device_without_a_decoder_says_so(monkeypatch):
    with pytest.raises(ConfigError, match="nothing decodes JPEGs on meta; there are cpu, cuda"):
        jpegs.identity("device", torch.device("meta"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    jpegs.decoder_of.cache_clear()
    with pytest.raises(ConfigError, match="there is no CUDA") as caught:
        jpegs.identity("device", torch.device("cuda"))
    assert "turbo" in caught.value.hint
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    with pytest.raises(ConfigError, match="needs torchcodec on CUDA") as caught:
        jpegs.identity("device", torch.device("cuda"))
    assert "shardkit[device]" in caught.value.hint
    monkeypatch.setattr(turbo, "installed", lambda: False)
    with pytest.raises(ConfigError, match="needs simplejpeg on a CPU"):
        jpegs.identity("device", CPU)


def test_a_batch_is_decoded_by_what_its_states_bind_only():
    host, _ = host_batch(Square(image_size=28), [jpeg(smooth(40, 40))])
    other = replace(host, encoded=replace(host.encoded, decoder="device-rgb/1 (torchcodec)"))
    with pytest.raises(ConfigError, match="which its loader's states bind"):
        other.to_device()


def test_torchcodec_is_asked_for_a_batch_and_for_each_where_it_refuses_one(monkeypatch):
    """Its interface, in the form of release 0.17; what it does on CUDA is for the tests marked gpu."""
    asked = []

    def decode_jpeg(source, *, mode="RGB", output_dtype=torch.uint8, device="cpu"):
        assert device == torch.device("cuda:1")
        asked.append(len(source))
        if any(len(one) == 3 for one in source):
            raise RuntimeError("nvjpegDecode failed: 2")
        return [torch.full((3, 2, 2), len(one), dtype=output_dtype) for one in source]

    module = types.ModuleType("torchcodec.decoders")
    module.decode_jpeg = decode_jpeg
    monkeypatch.setitem(sys.modules, "torchcodec", types.ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", module)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a GPU")
    monkeypatch.setattr(jpegs.metadata, "version", lambda name: {"torchcodec": "0.17.0"}[name])
    jpegs.decoder_of.cache_clear()
    decoder = jpegs.decoder_of(torch.device("cuda"))
    assert decoder.identity.startswith("device-rgb/1 (torchcodec 0.17.0, torch 2.")
    assert decoder.identity.endswith("a GPU)")
    whole, broken = torch.zeros(5, dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8)
    assert decoder.decode([]) == []
    assert [int(one[0, 0, 0]) for one in decoder.decode([whole, whole])] == [5, 5]
    assert [one is None for one in decoder.decode([whole, broken, whole])] == [False, True, False]
    assert asked == [2, 3, 1, 1, 1]
    monkeypatch.setitem(vars(decoder), "_decode", _out_of_memory)
    with pytest.raises(torch.OutOfMemoryError):
        decoder.decode([whole])
    jpegs.decoder_of.cache_clear()


def _out_of_memory(*_, **__):
    raise torch.OutOfMemoryError("made so")


# ------------------------------------------------------------------ the loader
@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Sequences with JPEGs and PNGs, one of each in a row."""
    folder = tmp_path_factory.mktemp("photographs") / "photos"
    folder.mkdir()
    rows = []
    for number in range(12):
        photo = smooth(90 + number, 130, number)
        kinds = (jpeg(photo), jpeg(photo, progressive=True), jpeg(photo.convert("L")), jpeg(photo, subsampling=0))
        (folder / f"{number}.jpg").write_bytes(kinds[number % 4])
        (folder / f"{number}.png").write_bytes(png(smooth(20, 30 + number, number)))
        rows.append({"text": f"<image> {number} <image>", "images": [f"{number}.jpg", f"{number}.png"]})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = ingest(folder / "rows.jsonl", folder.parent / "examples")
    return tokenize(examples, out=folder.parent / "tokens")


def test_a_loader_gives_the_same_batches_with_other_pixels(photographs):
    settings = {"max_tokens": 64, "tail": "pad", "epochs": 1}
    with StreamingLoader(photographs, **settings) as loader:
        wanted = list(loader)
    with StreamingLoader(photographs, decoder="device", **settings) as loader:
        found = list(loader)
        state = json.loads(json.dumps(loader.state_dict()))
    shown = 0
    for one, other in zip(found, wanted, strict=True):
        assert one.info.rows == other.info.rows
        assert torch.equal(one.input_ids, other.input_ids)
        assert torch.equal(one.image_used_sizes, other.image_used_sizes)
        for pixels, expected in zip(pixels_of(one), pixels_of(other), strict=True):
            assert psnr(pixels, expected) > 45
            shown += 1
    assert shown == 24
    assert state["bound"]["decoder"] == jpegs.identity("device", CPU)
    with StreamingLoader(photographs, **settings) as loader:
        with pytest.raises(ResumeError, match=r'decoder is "device-rgb/1 \(simplejpeg .*there, "pillow-rgb/1" here'):
            loader.load_state_dict(state)
        assert loader.load_state_dict(state, require="equivalent") is Promise.STATISTICALLY_EQUIVALENT
    with StreamingLoader(photographs, decoder="device", **settings) as loader:
        assert loader.load_state_dict(state) is Promise.REPLAYABLE


def test_workers_hand_over_the_files(photographs):
    loader = StreamingLoader(photographs, max_tokens=64, tail="pad", epochs=1, decoder="device")
    hosts = list(DataLoader(loader, batch_size=None, num_workers=1))
    with StreamingLoader(photographs, max_tokens=64, tail="pad", epochs=1, decoder="device") as own:
        for host, batch in zip(hosts, own, strict=True):
            assert host.pixels[host.encoded.ranges[0]][:2].tolist() == [0xFF, 0xD8]
            assert len(host.pixels) < len(batch.pixels)
            assert torch.equal(host.to_device().pixels, batch.pixels)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_decodes_to_the_same_geometry(photographs):
    pytest.importorskip("torchcodec")
    settings = {"max_tokens": 64, "tail": "pad", "epochs": 1}
    with StreamingLoader(photographs, **settings) as loader:
        wanted = list(loader)
    with StreamingLoader(photographs, decoder="device", device="cuda", **settings) as loader:
        for one, other in zip(loader, wanted, strict=True):
            assert torch.equal(one.input_ids.cpu(), other.input_ids)
            for pixels, expected in zip(pixels_of(one), pixels_of(other), strict=True):
                # nvJPEG may take colours from a coarser grid than libjpeg does.
                assert psnr(pixels, expected) > 30
