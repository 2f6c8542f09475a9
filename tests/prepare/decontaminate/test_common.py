"""What is common, against the obvious count."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from shardkit.prepare.decontaminate import common
from shardkit.prepare.decontaminate.common import Frequencies


@pytest.mark.parametrize("seed", range(6))
def test_counts_groups_over_all_and_by_source(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(common, "_MIN_WAITING", 1 + 200 * (seed % 3))
    draw = random.Random(seed)
    num_groups = [60, 25, 5]
    met = [(draw.randrange(30) ** 2 // 30, source, draw.randrange(num_groups[source])) for source in (0, 1, 2) * 300]

    def limit(groups: int) -> int:
        return max(3, groups // 4)

    counted = Frequencies(30, surely=limit(sum(num_groups)))
    for start in range(0, len(met), 50):
        features, sources, groups = (np.array(column) for column in zip(*met[start : start + 50], strict=True))
        counted.add(features, sources, (groups + 1000 * sources).astype(np.uint64))
    holders: dict[int, set[tuple[int, int]]] = defaultdict(set)
    for feature, source, group in met:
        holders[feature].add((source, group))
    expected = [
        len(holders[feature]) > limit(sum(num_groups))
        or any(sum(s == source for s, _ in holders[feature]) > limit(num_groups[source]) for source in range(3))
        for feature in range(30)
    ]
    assert counted.common(limit, np.array(num_groups)).tolist() == expected
    assert 0 < sum(expected) < 30


def test_nothing_met_is_nothing_common():
    assert Frequencies(3, surely=5).common(lambda groups: 5, np.empty(0, np.int64)).tolist() == [False] * 3
