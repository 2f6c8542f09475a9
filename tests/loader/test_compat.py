"""The names of the first trainers give what they gave, and what our own batches give."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.compat import PILImageProcessor, collate_omvt_batch, images_of_rows
from shardkit.loader.patches import cut
from shardkit.media.processors import NORMALISATIONS, Square
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch

MEAN, STD = NORMALISATIONS["imagenet"]


def picture(height=40, width=70, seed=0):
    random = np.random.default_rng(seed)
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


def png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_every_form_of_a_picture_gives_the_same(tmp_path):
    image, processor = picture(), PILImageProcessor(56)
    (tmp_path / "a.png").write_bytes(png(image))
    forms = [image, png(image), tmp_path / "a.png", str(tmp_path / "a.png"), {"bytes": png(image)},
             {"path": str(tmp_path / "a.png"), "bytes": None}]  # fmt: skip
    found = processor(forms)
    assert (found.shape, found.dtype) == ((6, 3, 56, 56), torch.float32)
    assert all(torch.equal(one, found[0]) for one in found)
    assert torch.equal(processor(image), found[0])
    assert processor([]).shape == (0, 3, 56, 56)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA", "P"])
def test_what_can_be_seen_through_is_white_in_every_form(mode):
    random = np.random.default_rng(1)
    image = Image.fromarray(random.integers(0, 256, (9, 11, 4), dtype=np.uint8), "RGBA")
    if mode == "P":
        image = image.convert("RGB").quantize(7)
        image.info["transparency"] = 3
    else:
        image = image.convert(mode)
    processor = PILImageProcessor(8)
    found = processor(image)
    if mode != "PA":  # no file holds that
        assert (found - processor(png(image))).abs().max() < 0.01
    grey = Image.new("LA", (4, 4), (90, 0))
    assert torch.equal(processor(grey), processor(Image.new("RGB", (4, 4), "white")))


def test_values_are_those_of_the_formula():
    image = picture(56, 56)
    found = PILImageProcessor(56)(image)
    exact = (np.asarray(image) / 255 - np.array(MEAN)) / np.array(STD)
    assert np.array_equal(found.numpy(), exact.transpose(2, 0, 1).astype(np.float32))
    plain = PILImageProcessor(56, mean=None, std=None)(image)
    assert np.array_equal(plain.numpy(), (np.asarray(image) / 255).transpose(2, 0, 1).astype(np.float32))
    grey = PILImageProcessor(28, in_channels=1, mean=(0.5,), std=(0.5,))(image)
    assert grey.shape == (1, 28, 28)


def test_patches_are_those_that_our_own_batch_has():
    image = picture(50, 90)
    pixels = Square(image_size=100).pixels(image)
    slot = Slot(start=0, count=1, image=0, height=100, width=100)
    host, _ = make_host_batch(
        [[Sequence(input_ids=np.zeros(2, np.uint16), objectives=bytes(2), slots=(slot,))]], np.random.default_rng(0)
    )
    host.pixels[:30000] = torch.tensor(pixels).flatten()
    ours = host.to_device().patches
    theirs = collate_omvt_batch(PILImageProcessor(100)([image]))
    for kind, patches in ours.items():
        assert torch.equal(theirs[f"{kind}_patches"][0], patches.values), kind
        assert theirs[f"{kind}_bbox"][0, :, 0].tolist() == (patches.row * theirs[f"{kind}_bbox"][0, 0, 2]).tolist()
    # Grids of a side of 100: 4 x 13, 13 x 4, 7 x 7 and 2 x 2.
    assert [theirs[f"{kind}_patches"].shape[1] for kind in ours] == [52, 52, 49, 4]


def test_the_worked_patches_of_two_channels():
    images = torch.arange(12.0).view(1, 2, 2, 3)
    batch = collate_omvt_batch(images, dict.fromkeys(("vertical", "horizontal", "square", "layout"), (2, 2)))
    assert batch["square_patches"].tolist() == [[[0, 1, 3, 4, 6, 7, 9, 10], [2, 0, 5, 0, 8, 0, 11, 0]]]
    assert batch["square_bbox"].tolist() == [[[0, 0, 2, 2], [0, 2, 2, 2]]]
    assert batch["square_bbox"].dtype == torch.int64
    assert batch["images"] is images


@pytest.mark.parametrize(("side", "patches"), [(224, [196, 196, 196, 16]), (56, [8, 8, 16, 1])])
def test_grids_by_configuration(side, patches):
    sizes = {"vertical": (28, 14), "horizontal": (14, 28), "square": (14, 14), "layout": (56, 56)}
    config = None if side == 224 else SimpleNamespace(**{f"{kind}_patch": size for kind, size in sizes.items()})
    batch = collate_omvt_batch(torch.zeros(2, 3, side, side), config)
    assert [batch[f"{kind}_patches"].shape[1] for kind in sizes] == patches


def test_one_image_a_row_or_none_at_all():
    assert images_of_rows([{"images": ["a"]}, {"images": ["b"]}]) == ["a", "b"]
    assert images_of_rows([{"images": None}, {"text": "x"}]) is None
    for rows in ([{"images": ["a", "b"]}], [{"images": ["a"]}, {"images": []}]):
        with pytest.raises(ConfigError, match="one image a row") as caught:
            images_of_rows(rows)
        assert "StreamingLoader" in caught.value.hint
        assert "one_image_rows=true" in caught.value.hint


def test_what_is_no_picture_is_refused(tmp_path):
    processor = PILImageProcessor(8)
    with pytest.raises(TypeError, match="int is no picture"):
        processor(7)
    with pytest.raises(SourceError, match="cannot be read"):
        processor(tmp_path / "none.png")
    with pytest.raises(SourceError, match="cannot be decoded"):
        processor(b"no picture")
    for wrong in ({"image_size": 0}, {"in_channels": 2}, {"mean": (0.5,)}, {"mean": None}):
        with pytest.raises(ValueError, match=r"image_size|in_channels|mean"):
            PILImageProcessor(**wrong)


def test_the_cut_of_our_own_needs_no_image():
    assert cut(torch.zeros(0, dtype=torch.uint8), [], {"square": (2, 2)})["square"].values.shape == (0, 12)
    assert "numpy" not in vars(sys.modules["shardkit.loader.compat"])
