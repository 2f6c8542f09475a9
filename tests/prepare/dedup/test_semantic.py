from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.dedup import semantic
from shardkit.prepare.dedup.embeddings import Stored, Vectors, directions
from shardkit.prepare.dedup.semantic import FLOOR, NEIGHBOURS, THRESHOLD, THRESHOLDS, evidence, find, search

Pairs = dict[tuple[int, int], float]


def stored(values: np.ndarray, path: Path) -> Vectors:
    steps, usable = directions(np.asarray(values, np.float64))
    steps.tofile(path)
    return Vectors(stored=Stored(path=path, num_units=len(steps), width=steps.shape[1]), have=usable, counts={})


def pairs_of(edges) -> Pairs:
    return dict(zip(zip(edges.one.tolist(), edges.two.tolist(), strict=True), edges.score.tolist(), strict=True))


def all_pairs(vectors: Vectors, floor: float) -> Pairs:
    """The obvious version: all against all, in whole numbers."""
    steps = vectors.stored.open().astype(np.int64)
    length = np.sqrt((steps * steps).sum(axis=1))
    found = {}
    for one in np.flatnonzero(vectors.have).tolist():
        for two in range(one + 1, len(steps)):
            if vectors.have[two]:
                cosine = int(steps[one] @ steps[two]) / (length[one] * length[two])
                if cosine >= floor:
                    found[one, two] = min(cosine, 1.0)
    return found


def planted(rng: np.random.Generator, num: int, copies: int, width: int = 64) -> np.ndarray:
    """`num` vectors of 20 topics, then near copies of the first `copies`."""
    base = rng.normal(size=(20, width))[rng.integers(20, size=num)] * 0.8 + rng.normal(size=(num, width))
    return np.concatenate([base, base[:copies] + rng.normal(size=(copies, width)) * 0.2])


def test_cosines_are_scores(tmp_path) -> None:
    vectors = stored([[1, 0], [3, 4], [4, 3], [-1, 0], [0, 0], [10, 0]], tmp_path / "v")
    edges = find(vectors, floor=0.7)
    assert pairs_of(edges) == {
        (0, 2): pytest.approx(0.8),
        (0, 5): 1.0,
        (1, 2): pytest.approx(0.96),
        (2, 5): pytest.approx(0.8),
    }
    assert edges.detail.shape == (4, 0)


def test_blocks_find_what_all_against_all_does(tmp_path) -> None:
    vectors = stored(planted(np.random.default_rng(1), 700, 150), tmp_path / "v")
    expected = all_pairs(vectors, 0.9)
    assert len(expected) >= 150
    for num_clusters in (None, 30):
        assert search(vectors, floor=0.9, num_clusters=num_clusters).num_blocks == (num_clusters or 1)
        got = pairs_of(find(vectors, floor=0.9, num_clusters=num_clusters))
        assert got == {pair: pytest.approx(score) for pair, score in expected.items() if pair in got}
        assert len(got) >= 0.99 * len(expected)


def test_another_seed_changes_blocks_and_not_scores(tmp_path) -> None:
    vectors = stored(planted(np.random.default_rng(2), 900, 100), tmp_path / "v")
    one, two, again = (pairs_of(find(vectors, num_clusters=30, seed=seed)) for seed in (0, 1, 0))
    assert one == again
    both = one.keys() & two.keys()
    assert len(both) > 100
    assert {pair: one[pair] for pair in both} == {pair: two[pair] for pair in both}


def test_pairs_ascend_and_stand_once(tmp_path) -> None:
    vectors = stored(planted(np.random.default_rng(3), 600, 300), tmp_path / "v")
    edges = find(vectors, num_clusters=10)
    keys = list(zip(edges.one.tolist(), edges.two.tolist(), strict=True))
    assert keys == sorted(set(keys))
    assert all(one < two for one, two in keys)
    assert edges.score.min() >= FLOOR
    assert edges.score.max() <= 1


def test_a_heap_of_equal_vectors_gives_few_pairs(tmp_path) -> None:
    values = np.tile([1.0, 2.0, 3.0], (500, 1))
    found = search(stored(values, tmp_path / "v"))
    assert len(found.edges) < 500 * (NEIGHBOURS + 1)
    assert found.num_crowded == 500
    # Whichever of the first stays takes all others with it.
    assert {(0, two) for two in range(1, 500)} <= set(pairs_of(found.edges))


def test_a_heap_that_cannot_be_divided_is_cut(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(semantic, "MAX_BLOCK", 64)
    values = np.concatenate([np.tile([1.0, 2.0, 3.0], (500, 1)), np.random.default_rng(0).normal(size=(500, 3))])
    found = search(stored(values, tmp_path / "v"))
    near = np.unique(np.concatenate([found.edges.one, found.edges.two]))
    assert set(range(500)) <= set(near.tolist())


def test_a_large_block_is_divided_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(semantic, "MAX_BLOCK", 100)
    vectors = stored(planted(np.random.default_rng(4), 2000, 300), tmp_path / "v")
    found = search(vectors, floor=0.9, num_clusters=3)
    assert found.num_blocks > 20
    got = set(pairs_of(found.edges))
    assert sum((place, 2000 + place) in got for place in range(300)) >= 290


def test_units_without_a_vector_are_near_to_nothing(tmp_path) -> None:
    nothing = search(stored(np.zeros((5, 3)), tmp_path / "v"))
    assert len(nothing.edges) == nothing.num_blocks == nothing.num_compared == 0
    one = search(stored([[0, 0], [1, 1]], tmp_path / "w"))
    assert (len(one.edges), one.num_compared) == (0, 1)


def test_the_threshold_is_one_of_seven() -> None:
    assert len(THRESHOLDS) == 7
    assert list(THRESHOLDS) == sorted(THRESHOLDS)
    assert THRESHOLDS[0] == FLOOR
    assert THRESHOLD in THRESHOLDS


def test_evidence_names_the_cosine() -> None:
    assert evidence(0.98765, []) == "vectors: cosine 0.9877"
