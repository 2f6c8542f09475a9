"""The tower: scans, router, slots."""

from __future__ import annotations

import pytest
import torch

from shardkit.media.processors.omvt import KINDS
from shardkit.trainer.vision import Lines, Router, encode_places, grid, scan, slot_centres
from tests.trainer.builders import Doc, make_batch, make_model, picture


def test_a_scan_is_the_decayed_sum_along_each_line():
    # Two images: 3 rows x 2 columns, and 2 x 1. Scanned down the columns, the lines are 3, 3 and 2 long.
    image = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
    row = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1])
    col = torch.tensor([0, 1, 0, 1, 0, 1, 0, 0])
    lines = Lines.of(image, col, row, torch.tensor([3, 2]))
    assert lines.order.tolist() == [0, 2, 4, 1, 3, 5, 6, 7]
    values = torch.tensor([[1.0], [2.0], [4.0], [8.0], [16.0], [32.0], [64.0], [128.0]])
    down = scan(values, torch.tensor([0.5]), lines.before, lines.longest)
    assert down.flatten().tolist() == [1, 2.5, 5.25, 8, 20, 42, 64, 160]
    up = scan(values.flip(0), torch.tensor([0.5]), lines.after.flip(0), lines.longest).flip(0)
    assert up.flatten().tolist() == [3, 4, 4, 24, 32, 32, 128, 128]


@pytest.mark.parametrize("longest", [1, 2, 7, 33])
def test_a_scan_is_its_recurrence(longest):
    generator = torch.Generator().manual_seed(longest)
    values, decay = torch.randn(3 * longest, 4, generator=generator), torch.rand(4, generator=generator)
    before = torch.arange(longest).repeat(3)[:, None]
    state, expected = torch.zeros(4), []
    for place, value in enumerate(values):
        state = value + (decay * state if before[place] else 0.0)
        expected.append(state)
    assert torch.allclose(scan(values, decay, before, longest), torch.stack(expected), atol=1e-6)


@pytest.mark.parametrize("kind", range(4), ids=KINDS)
def test_forcing_a_stream_changes_the_slots(kind):
    model = make_model()
    batch = make_batch([Doc(text=(7, 2), images=(picture(1),)), Doc(text=(8, 2), images=(picture(2, 28, 120),))])
    weights = torch.full((2, 4), 1e-6)
    weights[:, kind] = 1.0
    with torch.no_grad():
        assert (model.image_rows(batch) - model.image_rows(batch, weights=weights)).abs().max() > 1e-2


def test_a_forced_stream_is_all_that_the_slots_see():
    model = make_model()
    batch = make_batch([Doc(text=(7, 2), images=(picture(1),))])
    weights = torch.tensor([[1.0, 1e-30, 1e-30, 1e-30]])
    with torch.no_grad():
        before = model.image_rows(batch, weights=weights)
        batch.patches["square"].values.zero_()
        assert torch.equal(before, model.image_rows(batch, weights=weights))
        batch.patches["vertical"].values.zero_()
        assert (before - model.image_rows(batch, weights=weights)).abs().max() > 1e-2


def test_the_router_follows_the_shape_and_learns():
    router = Router()
    with torch.no_grad():
        for parameter in router.parameters():
            parameter.zero_()
    tall, wide, square = router(torch.tensor([[400, 100], [100, 400], [200, 200]]))
    vertical, horizontal = KINDS.index("vertical"), KINDS.index("horizontal")
    assert tall[vertical] > square[vertical] > wide[vertical]
    assert wide[horizontal] > square[horizontal] > tall[horizontal]
    assert torch.allclose(torch.stack([tall, wide, square]).sum(1), torch.ones(3))
    assert min(tall.min(), wide.min(), square.min()) >= 0.05

    model = make_model()
    model.losses(make_batch([Doc(text=(7, 8, 2), images=(picture(1),))])).sum().backward()
    assert model.vision.router.correction.weight.grad.abs().max() > 1e-6


def test_grids_count_the_patches_that_hang_over_the_edge():
    sizes = torch.tensor([[56, 56], [57, 28], [1, 100]])
    assert grid(sizes, 28, 28).tolist() == [[2, 2], [3, 1], [1, 4]]
    assert grid(sizes, 32, 8).tolist() == [[2, 7], [2, 4], [1, 13]]


def test_slots_stand_line_by_line():
    centres = slot_centres(torch.tensor([[28, 56], [56, 28]]), torch.tensor([2, 2]), 28)
    assert centres.tolist() == [[14, 14], [14, 42], [14, 14], [42, 14]]


def test_rows_and_columns_have_codes_of_their_own():
    codes = encode_places(torch.tensor([[8.0, 8.0], [8.0, 24.0], [24.0, 8.0], [8.0, 8.0]]), 32)
    assert codes.shape == (4, 32)
    assert torch.equal(codes[0], codes[3])
    assert (codes[1] - codes[2]).abs().max() > 0.1


def test_transposed_pictures_are_told_apart():
    model = make_model()
    tall = picture(3, 84, 28)
    with torch.no_grad():
        rows = [
            model.image_rows(make_batch([Doc(text=(7, 2), images=(image,))]))
            for image in (tall, tall.transpose(1, 0, 2).copy())
        ]
    assert rows[0].shape == rows[1].shape == (3, 32)
    assert (rows[0] - rows[1]).abs().max() > 1e-2
