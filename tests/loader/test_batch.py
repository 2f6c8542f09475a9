"""The host buffers: what crosses the bus and nothing else."""

import os
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch

from shardkit.errors import ShardkitError
from shardkit.loader.batch import PixelForm, lay_out
from shardkit.loader.quarantine import mask
from shardkit.loader.unpack import unpack
from shardkit.sequence.sequence import Sequence, Slot
from tests.loader.builders import make_host_batch, random_packs


def make_sequence(length, slots=()):
    return Sequence(
        input_ids=np.arange(length, dtype=np.uint16), objectives=bytes([0] + [1] * (length - 1)), slots=slots
    )


def test_words_are_few():
    slot = Slot(start=1, count=64, image=0, height=224, width=224)
    packs = [[make_sequence(1000, (slot,)) for _ in range(4)]]
    host, _ = make_host_batch(packs, np.random.default_rng(0))

    assert host.pixels.nbytes == 4 * 224 * 224 * 3
    # 4 bytes an id and one an objective; the rest is the tables.
    assert host.meta.nbytes == 4 * (16 + 5 + 5 + 4 + 2 + 4 * 10 + 14 + 4000 + 1000)
    assert (host.meta.dtype, host.pixels.dtype) == (torch.int32, torch.uint8)
    assert host.num_bytes == host.meta.nbytes + host.pixels.nbytes


def test_images_lie_at_multiples_of_sixteen_with_zeros_between():
    slots = tuple(Slot(start=i, count=1, image=i, height=3, width=3) for i in range(2))
    buffers = lay_out([[make_sequence(4, slots)]], np.zeros(7, np.int64), form=PixelForm())
    for place in buffers.places:
        place[...] = 255

    assert [image.offset for image in buffers.sizes.images] == [0, 32]
    assert buffers.pixels.tolist() == ([255] * 27 + [0] * 5) * 2


def test_masking_takes_the_targets_of_one_sequence_only():
    packs = [[make_sequence(3), make_sequence(4)], [make_sequence(2)]]
    buffers = lay_out(packs, np.zeros(7, np.int64), form=PixelForm())
    before = buffers.meta.clone()
    host, _ = make_host_batch(packs, np.random.default_rng(0))
    host.meta.copy_(mask(buffers.meta, buffers.sizes, 1))
    assert torch.equal(buffers.meta, before)

    first, second, third = (u.sequence for pack in unpack(host.to_device()) for u in pack)

    assert first.objectives == bytes([0, 1, 1])
    assert second.objectives == bytes([0, 0, 0, 0])
    assert second.input_ids.tolist() == [0, 1, 2, 3]
    assert third.objectives == bytes([0, 1])


def test_slots_come_in_the_order_of_their_tokens():
    slots = (
        Slot(start=5, count=2, image=1, height=4, width=4),
        Slot(start=1, count=3, image=0, height=8, width=8),
    )
    buffers = lay_out([[make_sequence(9, slots)]], np.zeros(7, np.int64), form=PixelForm())

    assert [(image.height, image.slots) for image in buffers.sizes.images] == [(8, 3), (4, 2)]


def test_a_batch_survives_pickling():
    random = np.random.default_rng(1)
    host, _ = make_host_batch(random_packs(random), random)

    back = pickle.loads(pickle.dumps(host))

    assert torch.equal(back.meta, host.meta)
    assert torch.equal(back.pixels, host.pixels)
    assert back.info == host.info


def test_a_sender_that_is_gone_is_named():
    host, _ = make_host_batch([[make_sequence(4)]], np.random.default_rng(0))
    sent = ForkingPickler.dumps(host)
    assert torch.equal(pickle.loads(sent).meta, host.meta)

    # What was handed over once is handed over no more: as if the sender had ended in between.
    with pytest.raises(ShardkitError, match=rf"worker \(pid {os.getpid()}\) ended before it handed over batch 0/0/0"):
        pickle.loads(sent)
