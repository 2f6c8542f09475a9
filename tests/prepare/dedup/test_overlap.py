"""Jaccard similarities of sets in a file, beside Python sets."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.dedup import overlap
from shardkit.prepare.dedup.overlap import SetFile, compare, trimmed


def test_the_lower_bits_make_room_for_the_pair():
    assert trimmed(np.array([2**64 - 1, 4096, 4095], np.uint64)).tolist() == [2**52 - 1, 1, 0]


@pytest.mark.parametrize(("block_pairs", "block_words"), [(4096, 1 << 20), (5, 1 << 20), (4096, 40)])
def test_similarities_are_those_of_python_sets(
    block_pairs: int, block_words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(overlap, "_BLOCK_PAIRS", block_pairs)
    monkeypatch.setattr(overlap, "_BLOCK_WORDS", block_words)
    chance = random.Random(1)
    pool = [0, 2**52 - 1, *(chance.randrange(2**52) for _ in range(20))]
    sets = [set(chance.sample(pool, chance.randrange(0, 20))) for _ in range(30)]
    file = SetFile(tmp_path / "sets", len(sets))
    for numbers in (range(10, 30), range(10)):
        part = np.array([value for number in numbers for value in sorted(sets[number])], np.uint64)
        (tmp_path / "part").write_bytes(part.tobytes())
        file.append(np.array(numbers), np.array([len(sets[number]) for number in numbers]), tmp_path / "part")
    pairs = [pair for pair in combinations(range(30), 2) if sets[pair[0]] and sets[pair[1]]]
    exact = {(a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b]) for a, b in pairs}
    one, two = np.array(list(combinations(range(30), 2))).T
    found = {}
    for block in file.blocks(one, two, floor=0.3):
        ones, twos, scores = compare(0.3, block)
        found |= dict(zip(zip(ones.tolist(), twos.tolist(), strict=True), scores.tolist(), strict=True))
    assert found == {pair: score for pair, score in exact.items() if score >= 0.3}
    assert len(found) > 100
    assert [path.name for path in tmp_path.iterdir()] == ["sets"]
