"""How today's loaders fail their users, as scenarios: rows of the list that batches could meet, by number."""

import dataclasses
from itertools import pairwise

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from shardkit.loader.attention import attend
from shardkit.loader.masks import AttentionLayout
from shardkit.sequence.sequence import Sequence
from tests.loader.builders import make_host_batch, make_loader


def test_row_28_packed_neighbours_attend_to_nothing_of_each_other(tokens):
    with make_loader(tokens) as loader:
        batch = next(iter(loader))
    bounds = batch.cu_seq_lens_q.tolist()
    assert len(bounds) > 3
    query, key, value = torch.randn(3, bounds[-1], 2, 8, generator=torch.Generator().manual_seed(0))

    packed = attend(query, key, value, AttentionLayout.of(batch))

    for start, stop in pairwise(bounds):
        parts = (part[start:stop, :, None].permute(2, 1, 0, 3) for part in (query, key, value))
        alone = scaled_dot_product_attention(*parts, is_causal=True)[0].transpose(0, 1)
        assert (packed[start:stop] - alone).abs().max() < 1e-5
    value[: bounds[1]] += 1
    changed = attend(query, key, value, AttentionLayout.of(batch))
    assert changed[bounds[1] :].equal(packed[bounds[1] :])
    assert not changed[: bounds[1]].equal(packed[: bounds[1]])


def test_row_29_boundaries_are_told_and_not_guessed_from_positions(tokens):
    with make_loader(tokens) as loader:
        batch = next(iter(loader))
    three = dataclasses.replace(batch, position_ids=batch.position_ids.expand(3, 1, -1))

    bounds = AttentionLayout.of(three).cu_seqlens
    assert bounds[-1] == batch.input_ids.numel()
    assert bounds.equal(batch.cu_seq_lens_q)
    assert bounds.diff().max() == batch.max_length_q


def test_row_30_a_packed_batch_carries_no_attention_mask(tokens):
    with make_loader(tokens) as loader:
        batch = next(iter(loader))

    names = {field.name for field in dataclasses.fields(batch)}
    assert {"cu_seq_lens_q", "cu_seq_lens_k"} <= names
    assert not [name for name in names if "attention_mask" in name]


def test_row_31_boundaries_come_from_lengths():
    ids = [np.arange(size).astype(np.uint16) for size in (1, 1, 5)]
    sequences = [Sequence(input_ids=one, objectives=bytes([0, *[1] * (len(one) - 1)])) for one in ids]

    host, _ = make_host_batch([sequences, []], np.random.default_rng(0))
    batch = host.to_device("cpu")

    assert batch.cu_seq_lens_q.tolist() == [0, 1, 2, 7]
    assert batch.pack_starts.tolist() == [0, 3, 3], "a pack that holds nothing is no document"
    assert batch.input_ids.numel() == 7
    assert batch.position_ids.flatten().tolist() == [0, 0, 0, 1, 2, 3, 4]
    assert batch.labels.flatten().tolist()[:3] == [-100, -100, -100]
