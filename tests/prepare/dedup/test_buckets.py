"""Candidate pairs from equal keys."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.dedup import buckets
from shardkit.prepare.dedup.buckets import BandFile, PairSet, bucket_pairs

Pairs = list[tuple[int, int]]


def pairs_of(keys: list[int], full: int = 16) -> tuple[Pairs, int]:
    one, two, num_large = bucket_pairs(np.array(keys, np.uint64), full=full)
    return list(zip(one.tolist(), two.tolist(), strict=True)), num_large


def obvious(keys: list[int], full: int) -> tuple[Pairs, int]:
    """Reference: bucket by bucket with a dict."""
    buckets = defaultdict(list)
    for place, key in enumerate(keys):
        if key:
            buckets[key].append(place)
    pairs = [pair for bucket in buckets.values() for pair in combinations(bucket, 2) if bucket.index(pair[0]) < full]
    return sorted(pairs), sum(len(bucket) > full for bucket in buckets.values())


@pytest.mark.parametrize(
    ("keys", "pairs", "num_large"),
    [
        ([], [], 0),
        ([5], [], 0),
        ([0, 0, 0], [], 0),
        ([5, 6, 5], [(0, 2)], 0),
        ([2**64 - 1, 7, 2**64 - 1], [(0, 2)], 0),
        ([7, 5, 7, 7, 0, 7], [(0, 2), (0, 3), (0, 5), (2, 3), (2, 5)], 1),
    ],
)
def test_rows_of_one_key_are_paired_with_the_first_of_them(keys: list[int], pairs: Pairs, num_large: int):
    found, large = pairs_of(keys, full=2)
    assert (sorted(found), large) == (pairs, num_large)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_those_of_the_obvious_version(seed: int):
    chance = random.Random(seed)
    keys = [chance.randrange(40) for _ in range(chance.randrange(1, 600))]
    found, num_large = pairs_of(keys, full=5)
    assert len(found) == len(set(found))
    assert (sorted(found), num_large) == obvious(keys, 5)
    assert found


def test_the_number_of_pairs_is_linear_in_the_size_of_a_bucket():
    found, num_large = pairs_of([9] * 5000)
    assert len(found) == 16 * 15 // 2 + 16 * (5000 - 16)
    assert num_large == 1


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_pair_found_in_several_bands_is_one_pair(on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(buckets, "_MIN_WAITING", 50)
    monkeypatch.setattr(buckets, "_MAX_SETTLED", 60)
    chance = random.Random(1)
    expected: set[tuple[int, int]] = set()
    pairs = PairSet(tmp_path if on_disk else None)
    for _ in range(14):
        some = [tuple(sorted(chance.sample(range(30), 2))) for _ in range(40)]
        expected |= set(some)
        pairs.add(np.array([one for one, _ in some]), np.array([two for _, two in some]))
    one, two = pairs.result()
    assert list(zip(one.tolist(), two.tolist(), strict=True)) == sorted(expected)
    assert len(expected) < 14 * 40
    parts = [list(zip(one.tolist(), two.tolist(), strict=True)) for one, two in pairs.blocks()]
    assert len(parts) > 3
    assert [pair for part in parts for pair in part] == sorted(expected, key=lambda pair: pair[::-1])
    assert bool(list(tmp_path.iterdir())) is on_disk


def test_places_may_need_all_of_32_bits():
    pairs = PairSet()
    pairs.add(np.array([2**32 - 2]), np.array([2**32 - 1]))
    one, two = pairs.result()
    assert (one.tolist(), two.tolist()) == ([2**32 - 2], [2**32 - 1])


def test_no_pairs_are_an_empty_result():
    one, two = PairSet().result()
    assert (one.dtype, two.dtype, len(one), len(two)) == (np.int64, np.int64, 0, 0)


def test_bands_are_read_as_they_were_put(tmp_path: Path):
    file = BandFile(tmp_path / "bands", bands=2, size=4)
    file.put(2, np.array([[1, 2], [3, 4]], np.uint64))
    file.put(0, np.array([[5], [6]], np.uint64))
    assert [keys.tolist() for keys in file] == [[5, 0, 1, 2], [6, 0, 3, 4]]
    assert [keys.tolist() for keys in BandFile(tmp_path / "none", bands=2, size=0)] == [[], []]
