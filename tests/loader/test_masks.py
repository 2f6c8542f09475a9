"""The attention layout and its slow form."""

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from shardkit.loader.masks import AttentionLayout, Bounds, CrossLayout
from shardkit.sequence.intervals import bounds, in_parts
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch, random_packs


def layout_of(*lengths):
    sequences = [Sequence(input_ids=np.zeros(n, np.uint16), objectives=bytes(n)) for n in lengths]
    return AttentionLayout.of(make_host_batch([sequences], np.random.default_rng(0))[0].to_device())


def test_the_drawing_of_the_module():
    assert layout_of(3, 2).dense().int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_no_token_attends_across_a_boundary():
    layout = layout_of(1, 1, 5, 1, 30)
    mask = layout.dense().numpy()
    bounds = layout.cu_seqlens.tolist()
    owner = np.repeat(np.arange(5), np.diff(bounds))

    assert layout.max_length == 30
    assert not mask[owner[:, None] != owner[None, :]].any()
    assert all(mask[row, owner == owner[row]].sum() == row - bounds[owner[row]] + 1 for row in range(38))


def test_nothing_attends_in_an_empty_batch():
    assert layout_of().dense().shape == (0, 0)


def by_hand(bounds, size):
    """Block by block from the dense mask: the lists that hold something, and the lists that hold everything."""
    mask = bounds.dense().numpy()
    rows, columns = (-(-length // size) for length in mask.shape)
    over = [(0, number * size - length) for number, length in zip((rows, columns), mask.shape, strict=True)]
    cells = np.pad(mask, over).reshape(rows, size, columns, size)
    # Rows behind the last are of no block, keys behind the last are none.
    whole = np.pad(mask, over, constant_values=((True, True), (False, False))).reshape(cells.shape).all(axis=(1, 3))
    some = cells.any(axis=(1, 3)) & ~whole
    return tuple([np.flatnonzero(row).tolist() for row in blocks] for blocks in (some, whole))


def lists(bounds, size):
    found = bounds.blocks(size)
    return tuple(
        [row[:count] for row, count in zip(rows.tolist(), counts.tolist(), strict=True)]
        for rows, counts in ((found.partial, found.num_partial), (found.full, found.num_full))
    )


@pytest.mark.parametrize("size", [1, 4, 16])
def test_blocks_written_down_are_those_of_the_dense_mask(size):
    num_full = num_partial = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        bounds = layout_of(*random.integers(1, 40, int(random.integers(1, 9))).tolist()).bounds
        assert lists(bounds, size) == by_hand(bounds, size), seed
        num_partial += int(bounds.blocks(size).num_partial.sum())
        num_full += int(bounds.blocks(size).num_full.sum())
    assert num_full > 40
    assert num_partial > 40 or size == 1


@pytest.mark.parametrize("size", [1, 4, 16])
def test_blocks_of_images_too(size):
    for seed in range(60):
        random = np.random.default_rng(seed)
        rows, keys = int(random.integers(1, 80)), int(random.integers(1, 80))
        low = np.sort(random.integers(0, keys + 1, rows))
        high = np.maximum.accumulate(np.maximum(low, np.sort(random.integers(0, keys + 1, rows))))
        bounds = Bounds(
            low=torch.tensor(low, dtype=torch.int32), high=torch.tensor(high, dtype=torch.int32), num_keys=keys
        )
        partial, full = lists(bounds, size)
        wanted_partial, wanted_full = by_hand(bounds, size)
        # What is written down may call a block partial that holds nothing or everything: rows that see nothing lie between.
        for got, got_full, want, want_full in zip(partial, full, wanted_partial, wanted_full, strict=True):
            assert set(got_full) <= set(want_full)
            assert set(want) | set(want_full) <= set(got) | set(got_full)
            assert not set(got) & set(got_full)


def test_the_block_mask_is_the_one_that_torch_makes_element_by_element():
    layout = layout_of(100, 300, 1, 260, 50)
    mask = layout.dense()
    made = create_block_mask(lambda b, h, q, k: mask[q, k], None, None, 711, 711, device="cpu")
    ours = layout.block_mask
    assert torch.equal(made.to_dense(), ours.to_dense())
    assert torch.equal(made.full_kv_num_blocks, ours.full_kv_num_blocks)
    assert torch.equal(made.kv_num_blocks, ours.kv_num_blocks)


def test_an_empty_batch_has_no_blocks():
    assert lists(layout_of().bounds, 4) == ([], [])


def test_the_worked_rows_of_images_and_text():
    for places, length, intervals in (
        ([0, 1, 7], 12, [(0, 7), (1, 7), (7, 12)]),
        ([0, 2, 4], 5, [(0, 2), (2, 4), (4, 5)]),
        ([0, 2], 5, [(0, 2), (2, 5)]),
    ):
        slots = tuple(Slot(start=at, count=1, image=k, height=1, width=1) for k, at in enumerate(places))
        sequence = Sequence(input_ids=np.zeros(length, np.uint16), objectives=bytes(length), slots=slots)
        batch = make_host_batch([[sequence]], np.random.default_rng(0))[0].to_device()
        mask = CrossLayout.of(batch).dense()
        assert [(int(torch.nonzero(column)[0]), int(torch.nonzero(column)[-1]) + 1) for column in mask.T] == intervals


def test_images_seen_are_those_that_the_host_says():
    num_images = joined = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        host, _ = make_host_batch(random_packs(random, largest_side=3), random)
        batch = host.to_device()
        starts, slots = batch.image_starts.tolist(), batch.image_slots.tolist()
        joins = np.array([k > 0 and starts[k] == starts[k - 1] + slots[k - 1] for k in range(len(starts))], bool)
        low, high = bounds(starts, batch.input_ids.shape[1], joins, batch.cu_seq_lens_q[:-1].tolist())
        layout = CrossLayout.of(batch)
        assert layout.bounds.low.tolist() == low.tolist()
        assert layout.bounds.high.tolist() == high.tolist()
        parts = random.integers(1, 5, len(starts)).tolist()
        cut = CrossLayout.of(batch, parts)
        assert [cut.bounds.low.tolist(), cut.bounds.high.tolist()] == [b.tolist() for b in in_parts(low, high, parts)]
        num_images, joined = num_images + len(starts), joined + int(joins.sum())
    assert num_images > 100
    assert joined > 10
