"""Patches against a reference that reads one pixel at a time."""

import numpy as np
import pytest
import torch

from shardkit.loader.batch import ImagePlace, PixelForm
from shardkit.loader.patches import PATCH_SIZES, cut, normalise, table
from shardkit.media.processors import NORMALISATIONS
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch

MEAN, STD = NORMALISATIONS["imagenet"]


def batch_of(sizes, seed=0):
    """A batch with images of these (height, width), and their pixels."""
    slots = tuple(Slot(start=i, count=1, image=i, height=h, width=w) for i, (h, w) in enumerate(sizes))
    sequence = Sequence(input_ids=np.zeros(len(sizes) + 1, np.uint16), objectives=bytes(len(sizes) + 1), slots=slots)
    host, pixels = make_host_batch([[sequence]], np.random.default_rng(seed))
    return host.to_device(), pixels


def slow_patches(pixels, height, width):
    """(values, image, row, col) of each patch, pixel by pixel."""
    patches = []
    for image, array in enumerate(pixels):
        rows, cols = -(-array.shape[0] // height), -(-array.shape[1] // width)
        for row in range(rows):
            for col in range(cols):
                values = np.zeros((3, height, width), np.float32)
                for y in range(height):
                    for x in range(width):
                        at_y, at_x = row * height + y, col * width + x
                        if at_y < array.shape[0] and at_x < array.shape[1]:
                            for c in range(3):
                                values[c, y, x] = (array[at_y, at_x, c] / 255 - MEAN[c]) / STD[c]
                patches.append((values.flatten(), image, row, col))
    return patches


@pytest.mark.parametrize("sizes", [[(56, 56), (56, 56)], [(30, 45), (57, 13), (14, 14), (14, 14)], [(1, 1)], [(3, 90)]])
def test_every_kind_equals_the_slow_reference(sizes):
    batch, pixels = batch_of(sizes)

    for kind, (height, width) in PATCH_SIZES.items():
        expected = slow_patches(pixels, height, width)
        found = batch.patches[kind]
        assert torch.equal(found.values, torch.tensor(np.stack([values for values, *_ in expected]))), kind
        assert found.image.tolist() == [image for _, image, _, _ in expected]
        assert found.row.tolist() == [row for _, _, row, _ in expected]
        assert found.col.tolist() == [col for _, _, _, col in expected]


def test_grids_of_a_square_picture():
    batch, _ = batch_of([(224, 224)])

    shapes = {kind: tuple(patches.values.shape) for kind, patches in batch.patches.items()}

    assert shapes == {"vertical": (196, 768), "horizontal": (196, 768), "square": (196, 768), "layout": (16, 9408)}


def test_values_stand_in_the_order_channel_row_column():
    # The drawing of one channel: 2 x 3 pixels in patches of 2 x 2.
    pixels = torch.arange(18, dtype=torch.uint8).view(2, 3, 3)
    flat = torch.cat([pixels.flatten(), torch.zeros(14, dtype=torch.uint8)])
    image = ImagePlace(offset=0, height=2, width=3, slots=1)

    patches = cut(flat, [image], {"square": (2, 2)})["square"]

    known = normalise(pixels)
    red = patches.values[:, :4]
    assert torch.equal(red[0], known[..., 0][:, :2].flatten())
    assert torch.equal(red[1], torch.stack([known[0, 2, 0], torch.tensor(0.0), known[1, 2, 0], torch.tensor(0.0)]))


def test_no_images_give_empty_patches_of_the_right_width():
    sequence = Sequence(input_ids=np.zeros(3, np.uint16), objectives=bytes(3))
    batch = make_host_batch([[sequence]], np.random.default_rng(0))[0].to_device()

    assert {kind: tuple(p.values.shape) for kind, p in batch.patches.items()} == {
        "vertical": (0, 768),
        "horizontal": (0, 768),
        "square": (0, 768),
        "layout": (0, 9408),
    }
    assert batch.image_sizes.shape == (0, 2)


def test_the_table_is_rounded_once():
    values = table(torch.device("cpu")).view(256, 3)

    assert values.dtype == torch.float32
    assert values[255].tolist() == [np.float32((1 - m) / s).item() for m, s in zip(MEAN, STD, strict=True)]
    assert values[0, 0].item() == np.float32(-0.485 / 0.229).item()


def test_arithmetic_in_single_precision_would_give_other_bits():
    """Why there is a table: two forms that are the same in mathematics differ, and so would two devices."""
    values = torch.arange(256, dtype=torch.float32)[:, None]
    mean, std = torch.tensor(MEAN), torch.tensor(STD)
    one, other = (values / 255 - mean) / std, (values * torch.tensor(1 / 255) - mean) / std
    exact = table(torch.device("cpu")).view(256, 3)
    assert min(int((a != b).sum()) for a, b in ((one, other), (one, exact), (other, exact))) > 300


@pytest.mark.parametrize("normalisation", list(NORMALISATIONS))
def test_a_batch_normalises_as_its_processor_says(normalisation):
    slots = tuple(Slot(start=i, count=1, image=i, height=h, width=w) for i, (h, w) in enumerate([(16, 8), (9, 9)]))
    sequence = Sequence(input_ids=np.zeros(3, np.uint16), objectives=bytes(3), slots=slots)
    form = PixelForm(patch=4, merge=1, tile=8, normalisation=normalisation)
    host, pixels = make_host_batch([[sequence]], np.random.default_rng(0), form=form)
    batch = host.to_device()
    mean, std = (np.array(part) for part in NORMALISATIONS[normalisation])
    whole = [((image / 255 - mean) / std).astype(np.float32) for image in pixels]

    square = batch.square_patches
    assert square.values.shape == (4 * 2 + 3 * 3, 48)
    assert square.row.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert torch.equal(square.values[3], torch.tensor(whole[0][4:8, 4:8].transpose(2, 0, 1).flatten()))
    tiles = batch.tiles
    assert tiles.image.tolist() == [0, 0, 1, 1, 1, 1]
    assert torch.equal(tiles.values[1], torch.tensor(whole[0][8:16].transpose(2, 0, 1).flatten()))
    assert batch.image_grid_thw.tolist() == [[1, 4, 2], [1, 3, 3]]


def test_half_precision_is_rounded_from_single():
    pixels = torch.arange(256, dtype=torch.uint8)[:, None].expand(256, 3)
    single, half = normalise(pixels), normalise(pixels, dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16
    assert torch.equal(single.bfloat16(), half)


def test_a_batch_cuts_other_sizes_and_types():
    batch, _ = batch_of([(20, 9), (9, 20)])
    half = batch.cut({"own": (5, 7)}, dtype=torch.bfloat16)["own"]
    assert (half.values.dtype, half.values.shape) == (torch.bfloat16, (4 * 2 + 2 * 3, 3 * 35))
    assert torch.equal(half.values, batch.cut({"own": (5, 7)})["own"].values.bfloat16())


def test_a_processor_without_tiles_says_so():
    batch, _ = batch_of([(16, 16)])
    with pytest.raises(ValueError, match="cuts no tiles"):
        _ = batch.tiles
