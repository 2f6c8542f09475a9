"""Edges of large buckets, completed to the keepers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from shardkit.prepare.dedup.buckets import PairSet, bucket_pairs
from shardkit.prepare.dedup.complete import complete, keepers
from shardkit.prepare.dedup.edges import NearEdges

Pair = tuple[int, int]


def edges_of(pairs: dict[Pair, float]) -> NearEdges:
    both = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return NearEdges(
        one=both[:, 0],
        two=both[:, 1],
        score=np.array([pairs[pair] for pair in sorted(pairs)], np.float64),
        detail=np.zeros((len(pairs), 0), np.int32),
    )


class Oracle:
    """All edges there are; says the scores of pairs and remembers what was asked."""

    def __init__(self, pairs: dict[Pair, float]) -> None:
        self.pairs = pairs
        self.asked: list[Pair] = []

    def __call__(self, pairs: PairSet) -> NearEdges:
        one, two = pairs.result()
        asked = list(zip(one.tolist(), two.tolist(), strict=True))
        self.asked += asked
        return edges_of({pair: self.pairs[pair] for pair in asked if pair in self.pairs})


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_the_best_takes_its_neighbours_and_not_theirs():
    edges = edges_of({(0, 1): 1.0, (1, 2): 1.0, (2, 3): 1.0})
    assert keepers(edges, ints(0, 1, 2, 3)).tolist() == [0, 0, 2, 2]
    assert keepers(edges, ints(2, 0, 3, 1)).tolist() == [1, 1, 1, 3]
    assert keepers(edges_of({}), ints(0, 1)).tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_all_of_a_large_bucket_go_for_one(seed: int):
    size = 300
    everything = {(one, two): 0.9 for two in range(size) for one in range(two)}
    one, two, num_large = bucket_pairs(np.full(size, 7, np.uint64))
    edges = edges_of(dict.fromkeys(zip(one.tolist(), two.tolist(), strict=True), 0.9))
    rank = np.random.default_rng(seed).permutation(size)
    rank[[rank.argmin(), 200]] = rank[[200, rank.argmin()]]
    assert num_large == 1
    assert len(set(keepers(edges, rank).tolist())) > 200
    oracle = Oracle(everything)
    found = complete(edges, rank, threshold=0.75, verify=oracle)
    assert set(keepers(found, rank).tolist()) == {int(np.argmin(rank))}
    assert len(oracle.asked) < size


def test_what_is_not_near_the_keeper_stays_and_is_asked_once():
    edges = edges_of({(0, 1): 0.8, (1, 2): 0.8, (1, 3): 0.8, (2, 3): 0.6})
    oracle = Oracle({(0, 2): 0.6})
    found = complete(edges, ints(0, 1, 2, 3), threshold=0.75, verify=oracle)
    assert keepers(found.above(0.75), ints(0, 1, 2, 3)).tolist() == [0, 0, 2, 3]
    assert sorted(oracle.asked) == [(0, 2), (0, 3)]
    # A score below the threshold is kept for the table of thresholds.
    assert list(zip(found.one.tolist(), found.two.tolist(), found.score.tolist(), strict=True))[1] == (0, 2, 0.6)


@pytest.mark.parametrize("seed", range(20))
def test_in_the_end_no_unit_stays_beside_an_untried_keeper(seed: int):
    chance = random.Random(seed)
    size = 40
    everything = {(one, two): chance.random() for two in range(size) for one in range(two) if chance.random() < 0.4}
    known = {pair: score for pair, score in everything.items() if chance.random() < 0.3}
    oracle, rank = Oracle(everything), np.array(chance.sample(range(size), size))
    found = complete(edges_of(known), rank, threshold=0.5, verify=oracle)
    assert len(oracle.asked) == len(set(oracle.asked))
    assert not set(oracle.asked) & set(known)
    pairs = dict(zip(zip(found.one.tolist(), found.two.tolist(), strict=True), found.score.tolist(), strict=True))
    assert pairs.items() <= everything.items()
    near = found.above(0.5)
    keeper = keepers(near, rank).tolist()
    tried = {*known, *oracle.asked}
    for one, two in zip(near.one.tolist(), near.two.tolist(), strict=True):
        for unit, other in ((one, two), (two, one)):
            if keeper[unit] == unit and keeper[other] not in (other, unit):
                assert tuple(sorted((unit, keeper[other]))) in tried


def test_without_edges_nothing_is_asked():
    oracle = Oracle({})
    assert len(complete(NearEdges.none(2), ints(0, 1), threshold=0.5, verify=oracle)) == 0
    assert oracle.asked == []
