"""Pieces of a batch for context parallelism: borders of documents only."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

from shardkit.errors import ConfigError
from shardkit.loader import StreamingLoader
from shardkit.loader.context import context_pieces


def test_the_example_of_the_module():
    assert context_pieces([5, 3, 4, 4], 2) == [(0, 2), (2, 4)]
    with pytest.raises(ConfigError, match="have 7 tokens at least, 6 is the limit") as caught:
        context_pieces([5, 3, 4, 4], 3, max_tokens=6)
    assert "fewer ranks" in caught.value.hint


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_piece_is_the_least_of_all_ways(seed):
    random = np.random.default_rng(seed)
    documents = random.integers(1, 30, int(random.integers(1, 9))).tolist()
    for size in (1, 2, 3, 5):
        pieces = context_pieces(documents, size)
        assert pieces[0][0] == 0
        assert pieces[-1][1] == len(documents)
        assert all(one[1] == other[0] for one, other in pairwise(pieces))
        assert len(pieces) == size
        ways = [
            max(sum(documents[a:b]) for a, b in zip((0, *cut), (*cut, len(documents)), strict=True))
            for cuts in range(size)
            for cut in combinations(range(1, len(documents)), cuts)
        ]
        assert max(sum(documents[a:b]) for a, b in pieces) == min(ways)


def test_nothing_is_shared_by_no_ranks():
    assert context_pieces([], 2) == [(0, 0), (0, 0)]
    with pytest.raises(ConfigError, match="cannot be shared by 0 ranks"):
        context_pieces([3], 0)


def test_ranks_of_one_group_have_the_same_batches_and_their_pieces_are_all_of_it(tokens):
    with StreamingLoader(tokens, max_tokens=256, global_batch=4, rank=1, world_size=2) as one:
        of_one = list(one)
    with StreamingLoader(tokens, max_tokens=256, global_batch=4, rank=1, world_size=2) as other:
        of_other = list(other)

    assert [batch.batch_id for batch in of_one] == [batch.batch_id for batch in of_other]
    for batch in of_one:
        bounds = batch.cu_seq_lens_q.tolist()
        pieces = context_pieces(torch.diff(batch.cu_seq_lens_q).tolist(), 2)
        together = [batch.input_ids[0, bounds[first] : bounds[last]] for first, last in pieces]
        assert torch.equal(torch.cat(together), batch.input_ids[0])
