"""What each rank gets of a global batch."""

import numpy as np
import pytest

from shardkit.errors import ConfigError
from shardkit.sequence.plan import check_world, shares


def test_the_example_of_the_function():
    assert shares([9, 7, 3, 2], 2) == [(0, 3), (1, 2)]


def test_ties_go_to_the_lower_place_and_rank():
    assert shares([5, 5, 5, 5], 2) == [(0, 2), (1, 3)]


def test_one_rank_gets_everything_in_order():
    assert shares([1, 9, 4], 1) == [(0, 1, 2)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 6, 8, 12, 24])
def test_every_rank_gets_equally_many_and_together_they_get_all(world_size):
    costs = np.random.default_rng(world_size).integers(0, 1000, 24).tolist()

    parts = shares(costs, world_size)

    assert {len(part) for part in parts} == {24 // world_size}
    assert sorted(place for part in parts for place in part) == list(range(24))


def test_ranks_are_balanced_by_cost():
    costs = np.random.default_rng(0).lognormal(10, 1, 64).astype(int).tolist()
    loads = [sum(costs[place] for place in part) for part in shares(costs, 8)]
    in_turn = [sum(costs[rank::8]) for rank in range(8)]

    assert max(loads) / np.mean(loads) < 1.1 < max(in_turn) / np.mean(in_turn)


def test_a_world_that_does_not_divide_is_refused_with_the_sizes_that_fit():
    with pytest.raises(ConfigError) as caught:
        check_world(24, 5)

    assert str(caught.value) == (
        "a global batch of 24 packs cannot be shared evenly by 5 ranks (world sizes that fit: 1, 2, 3, 4, 6, 8, 12, 24)"
    )
    assert caught.value.hint == "run on one of these numbers of ranks, or set --global-batch to a multiple of 5"


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_world_that_divides_is_accepted(world_size):
    check_world(4, world_size)
