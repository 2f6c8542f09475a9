"""Signatures and band keys: fair, the same everywhere, and never a key for an empty set."""

from __future__ import annotations

import numpy as np
import pytest

from shardkit.digest import mix64
from shardkit.prepare.dedup import minhash as module
from shardkit.prepare.dedup.minhash import band_keys, signatures
from shardkit.prepare.dedup.shingles import Ragged, mixed


def ragged(*lists: list[int]) -> Ragged:
    sizes = [len(one) for one in lists]
    values = np.array([value for one in lists for value in one], np.uint64)
    return Ragged(values=mixed(values), starts=np.cumsum([0, *sizes]))


def pairs_with(shared: int, own: int, pairs: int, seed: int) -> Ragged:
    """Pairs of sets with a Jaccard similarity of shared / (shared + 2 * own)."""
    lists = []
    for pair in range(pairs):
        start = mix64(seed, pair) >> 8
        both = list(range(start, start + shared))
        lists += [both + list(range(start + at, start + at + own)) for at in (10_000, 20_000)]
    return ragged(*lists)


def obvious(values: list[int], place: int) -> int:
    """Reference: the least of one permutation, with Python's integers."""
    factor, offset = (mix64("minhash", place) >> 32) | 1, mix64("minhash", place) & 0xFFFFFFFF
    return min(((value >> 32) * factor + offset) % 2**32 for value in values)


def test_a_signature_is_the_least_value_of_each_permutation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_BLOCK_SHINGLES", 7)
    sets = ragged([1, 2, 3], [], [4] * 20, [5], list(range(50)), [])
    found = signatures(sets, 9)
    borders = sets.starts.tolist()
    for number in range(6):
        own = sets.values[borders[number] : borders[number + 1]].tolist()
        expected = [obvious(own, place) if own else 0xFFFFFFFF for place in range(9)]
        assert found[:, number].tolist() == expected


@pytest.mark.parametrize(("shared", "own"), [(60, 70), (100, 50), (150, 25), (180, 10), (12, 2), (1000, 170)])
def test_two_signatures_agree_as_often_as_the_sets_are_similar(shared: int, own: int):
    """No bias: over 56,000 draws the rate stays within four standard errors of the similarity."""
    similarity, draws = shared / (shared + 2 * own), 112 * 500
    found = signatures(pairs_with(shared, own, 500, seed=shared), 112)
    rate = (found[:, ::2] == found[:, 1::2]).mean()
    assert abs(rate - similarity) < 4 * (similarity * (1 - similarity) / draws) ** 0.5


@pytest.mark.parametrize(("bands", "rows"), [(14, 8), (28, 4)])
@pytest.mark.parametrize(("shared", "own"), [(100, 50), (120, 40), (150, 25)])
def test_bands_find_as_many_pairs_as_the_formula_says(bands: int, rows: int, shared: int, own: int):
    similarity = shared / (shared + 2 * own)
    expected = 1 - (1 - similarity**rows) ** bands
    keys = band_keys(pairs_with(shared, own, 1000, seed=bands), bands=bands, rows=rows)
    rate = (keys[:, ::2] == keys[:, 1::2]).any(axis=0).mean()
    # The permutations serve all pairs, and the pairs' chances are still their own: 1,000 draws.
    assert abs(rate - expected) < 4 * (expected * (1 - expected) / 1000) ** 0.5 + 0.001


def test_only_an_empty_set_has_no_key():
    keys = band_keys(ragged([1, 2], [], [3]), bands=3, rows=2)
    assert (keys == 0).tolist() == [[False, True, False]] * 3


def test_keys_are_the_same_on_every_machine():
    keys = band_keys(ragged([1, 2, 3], [4]), bands=2, rows=3)
    assert [[f"{key:016x}" for key in band] for band in keys.tolist()] == KEYS


KEYS = [["fea017aa26f78493", "81db133b80437d9f"], ["ae86feab7f9f4216", "fc925ef4d18feed7"]]


def test_no_sets_have_no_keys():
    assert band_keys(ragged(), bands=2, rows=3).shape == (2, 0)
