"""The attention layout and its slow form."""

import numpy as np

from shardkit.loader.masks import AttentionLayout
from shardkit.sequence.sequence import Sequence
from tests.loader.builders import make_host_batch


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
