"""The device build against a slow reference that walks token by token."""

import numpy as np
import pytest
import torch

from shardkit.loader.attention import attend
from shardkit.loader.batch import PixelForm, Sizes
from shardkit.loader.device import IGNORE, build
from shardkit.loader.masks import AttentionLayout, CrossLayout
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch, random_packs

PACKS = 300


def slow_build(packs):
    """Every per-token array of a batch, one token at a time."""
    rows = {name: [] for name in ("ids", "labels", "shift_labels", "objectives", "positions", "documents", "slot_rows")}
    bounds, longest, next_row, document = [0], 0, 0, -1
    for sequence in (sequence for pack in packs for sequence in pack):
        row_at = {}
        for slot in sequence.slots:
            for place in range(slot.start, slot.start + slot.count):
                row_at[place] = next_row
                next_row += 1
        ids, length = sequence.input_ids.tolist(), sequence.num_tokens
        for place in range(length):
            if place in sequence.documents:
                document, first = document + 1, place
            last = place == length - 1 or place + 1 in sequence.documents
            target = 0 if last else sequence.objectives[place + 1]
            rows["ids"].append(ids[place])
            rows["labels"].append(ids[place] if place > first and sequence.objectives[place] else IGNORE)
            rows["shift_labels"].append(ids[place + 1] if target else IGNORE)
            rows["objectives"].append(target)
            rows["positions"].append(place - first)
            rows["documents"].append(document)
            rows["slot_rows"].append(row_at.get(place, -1))
            if last:
                bounds.append(bounds[-1] + place + 1 - first)
                longest = max(longest, place + 1 - first)
    return rows, bounds, longest


def built_as_the_slow_reference_has_it(packs, random):
    """The per-token arrays of a batch of `packs` and the bounds of its documents, compared with those of the slow one."""
    host, _ = make_host_batch(packs, random)
    rows, bounds, longest = slow_build(packs)

    batch = host.to_device()

    assert batch.input_ids.tolist() == [rows["ids"]]
    assert batch.labels.tolist() == [rows["labels"]]
    assert batch.shift_labels.tolist() == [rows["shift_labels"]]
    assert batch.objective_ids.tolist() == [rows["objectives"]]
    assert batch.position_ids.tolist() == [rows["positions"]]
    assert batch.seq_idx.tolist() == [rows["documents"]]
    assert batch.slot_rows.tolist() == [rows["slot_rows"]]
    assert batch.cu_seq_lens_q.tolist() == batch.cu_seq_lens_k.tolist() == bounds
    assert batch.max_length_q == batch.max_length_k == longest
    slots = [slot for pack in packs for sequence in pack for slot in sequence.slots]
    assert batch.image_sizes.tolist() == [[slot.height, slot.width] for slot in slots]
    assert batch.image_slots.tolist() == [slot.count for slot in slots]
    assert batch.image_grid_thw.tolist() == [[1, -(-slot.height // 14), -(-slot.width // 14)] for slot in slots]
    return rows, bounds, slots


@pytest.mark.parametrize("part", range(6))
def test_equals_the_slow_reference_on_random_packs(part):
    images = empty = one_token = 0
    for seed in range(part * PACKS // 6, (part + 1) * PACKS // 6):
        random = np.random.default_rng(seed)
        rows, bounds, slots = built_as_the_slow_reference_has_it(random_packs(random, largest_side=20), random)
        images += len(slots)
        empty += not rows["ids"]
        one_token += 1 in np.diff(bounds).tolist()
    assert min(images, empty, one_token) > 0, "vacuous: a kind of pack did not occur"


ENDS = {
    "none": [],
    "empty": [[], []],
    "one token": [[(1,)]],
    "many of one token": [[(1,)] * 500],
    "images only": [[(4, ((0, 4),))], [(3, ((0, 1), (1, 2)))]],
    "many images only": [[(1, ((0, 1),))] * 50],
    "full": [[(8192,)]],
    "full and empty": [[(8191,), (1,)], [], [(2, ((1, 1),))]],
}
"""Name -> packs of (tokens, (first token, tokens) of each image)."""


@pytest.mark.parametrize("name", ENDS)
def test_packs_at_the_ends_of_what_there_is(name):
    packs = [[made(*one) for one in pack] for pack in ENDS[name]]
    built_as_the_slow_reference_has_it(packs, np.random.default_rng(0))


def test_types_and_shapes():
    random = np.random.default_rng(3)
    host, _ = make_host_batch([[made(5, slots=((1, 2),))], [made(3)]], random)
    batch = host.to_device()

    for name in ("input_ids", "labels", "shift_labels", "objective_ids", "position_ids", "slot_rows"):
        assert (getattr(batch, name).dtype, getattr(batch, name).shape) == (torch.int64, (1, 8)), name
    assert (batch.seq_idx.dtype, batch.seq_idx.shape) == (torch.int32, (1, 8))
    assert (batch.cu_seq_lens_q.dtype, batch.cu_seq_lens_q.shape) == (torch.int32, (3,))
    assert (batch.denominators.dtype, batch.denominators.shape) == (torch.float64, (7,))
    assert (batch.image_sizes.shape, batch.image_grid_thw.shape, batch.image_slots.shape) == ((1, 2), (1, 3), (1,))


def test_denominators_are_exact_beyond_32_bits():
    counts = [0, 1, 2**31 - 1, 2**31, 2**32 + 5, 3 * 2**40, 7]
    host, _ = make_host_batch([[made(4)]], np.random.default_rng(0), denominators=counts)

    assert host.to_device().denominators.tolist() == counts


def test_drawing_of_the_module():
    first = Sequence(
        input_ids=np.array([1, 3, 4, 4, 5, 11, 12, 2], np.uint16),
        objectives=bytes([0, 0, 0, 0, 0, 2, 2, 2]),
        slots=(Slot(start=2, count=2, image=0, height=28, width=56),),
    )
    second = Sequence(input_ids=np.array([1, 13, 2], np.uint16), objectives=bytes([0, 1, 1]))
    batch = make_host_batch([[first, second]], np.random.default_rng(0))[0].to_device()

    assert batch.slot_rows.tolist() == [[-1, -1, 0, 1, -1, -1, -1, -1, -1, -1, -1]]
    assert batch.labels.tolist() == [[-100, -100, -100, -100, -100, 11, 12, 2, -100, 13, 2]]
    assert batch.shift_labels.tolist() == [[-100, -100, -100, -100, 11, 12, 2, -100, 13, 2, -100]]
    assert batch.objective_ids.tolist() == [[0, 0, 0, 0, 2, 2, 2, 0, 1, 1, 0]]
    assert batch.image_grid_thw.tolist() == [[1, 2, 4]]


def test_sizes_are_read_from_the_words_alone():
    random = np.random.default_rng(1)
    packs = [*random_packs(random), [made(5, slots=((0, 2), (3, 1)))]]
    host, _ = make_host_batch(packs, random)

    batch = build(host.meta, host.pixels)

    assert batch.sizes == Sizes.of(host.meta) == host.to_device().sizes
    with pytest.raises(ValueError, match="built by hand"):
        batch.batch_id  # noqa: B018


def test_offsets_beyond_two_gibibytes_survive():
    host, _ = make_host_batch([[made(5, slots=((0, 2), (3, 1)))]], np.random.default_rng(0))
    parts = Sizes.of(host.meta).parts()
    table = host.meta[parts["images"]].view(2, 10)
    table[1, 0], table[1, 1] = -16, 5

    assert Sizes.of(host.meta).images[1].offset == 5 * 2**32 + 2**32 - 16


def test_another_layout_version_is_refused():
    host, _ = make_host_batch([[made(5)]], np.random.default_rng(0))
    host.meta[0] = 99

    with pytest.raises(ValueError, match="layout version 99"):
        Sizes.of(host.meta)


def test_a_batch_moves_between_devices_whole():
    random = np.random.default_rng(5)
    host, _ = make_host_batch([[made(5, slots=((0, 2),))]], random)
    batch = host.to_device().to_device("meta")

    assert {value.device.type for value in vars(batch).values() if isinstance(value, torch.Tensor)} == {"meta"}
    assert batch.example_ids == ("example 0",)
    assert batch.position == (0, 0)


@pytest.mark.parametrize("seed", [0, 4, 11])
def test_nothing_waits_for_the_device(seed):
    """On torch's meta device there are shapes and no values: what would look at one, as a wait does, raises."""
    random = np.random.default_rng(seed)
    packs = random_packs(random)
    host, _ = make_host_batch(packs, random, form=PixelForm(tile=56))
    sizes = Sizes.of(host.meta)
    batch = build(host.meta.to("meta"), host.pixels.to("meta"), sizes)
    built = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    layouts = [AttentionLayout.of(batch), CrossLayout.of(batch), CrossLayout.of(batch, [3] * len(sizes.images))]
    for layout in layouts:
        built += [layout.bounds.low, layout.bounds.high, layout.block_mask.kv_num_blocks]
    for patches in (*batch.patches.values(), batch.square_patches, batch.tiles):
        built += [patches.values, patches.image, patches.row, patches.col]
    assert {part.device.type for part in built} == {"meta"}
    here = build(host.meta, host.pixels, sizes)
    for name in ("slot_rows", "shift_labels", "image_grid_thw"):
        assert getattr(batch, name).shape == getattr(here, name).shape
    assert batch.tiles.values.shape == here.tiles.values.shape


def test_a_wait_would_be_seen():
    """The back end for CPUs asks for the lengths of documents: it is the one that must not run on a device."""
    host, _ = make_host_batch([[made(5)]], np.random.default_rng(0))
    batch = build(host.meta.to("meta"), host.pixels.to("meta"), Sizes.of(host.meta))
    part = torch.zeros(5, 1, 2, device="meta")
    with pytest.raises((NotImplementedError, RuntimeError)):
        attend(part, part, part, AttentionLayout.of(batch), backend="sdpa")
    with pytest.raises((NotImplementedError, RuntimeError)):
        Sizes.of(batch.cu_seq_lens_q)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_builds_the_same_bits_and_waits_for_nothing():
    for seed in range(PACKS):
        random = np.random.default_rng(seed)
        host, _ = make_host_batch(random_packs(random), random)
        here = host.to_device()
        pinned = host.pin_memory()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            there = pinned.to_device("cuda")
            patches = there.patches
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for name in ("input_ids", "shift_labels", "objective_ids", "position_ids", "seq_idx", "slot_rows"):
            assert torch.equal(getattr(there, name).cpu(), getattr(here, name)), name
        for kind, expected in here.patches.items():
            assert torch.equal(patches[kind].values.cpu(), expected.values), kind


def made(length, slots=()):
    return Sequence(
        input_ids=np.arange(length, dtype=np.uint16),
        objectives=bytes([0] + [1] * (length - 1)),
        slots=tuple(Slot(start=start, count=count, image=0, height=9, width=7) for start, count in slots),
    )
