"""The n-grams of a benchmark as sorted hashes, on disk so that workers share them; only these are held.

Everything that may be found has a number, its feature: n-grams width by width, then pairs, then pictures. How many
groups of the training data hold a feature is counted over all rows before anything is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.prepare.decontaminate.passages import Searched, as_ragged
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.shingles import Ragged, shingles

Indices = npt.NDArray[np.int64]

TEMPLATE_PASSAGES = 20
"""An n-gram of more passages of the benchmarks than this is their own phrasing, and no part of any item."""
ANCHORS = (3, 5, 8)
"""Tokens at the beginning of a pair's question by which it is found; the longest that the question has."""
_SIEVE_BITS = 24
"""A table of 2 ** 24 flags at most, 16 MB: one look tells that most n-grams are in no benchmark."""
_ARRAYS = ("hashes", "pointers", "passages", "sizes")


class Sieve:
    """Sorted hashes with a table in front, because nearly every look-up is in vain."""

    def __init__(self, hashes: Keys) -> None:
        bits = min(_SIEVE_BITS, max(10, len(hashes).bit_length() + 4))
        self._hashes = hashes
        self._mask = np.uint64((1 << bits) - 1)
        self._flags = np.zeros(1 << bits, np.bool_)
        self._flags[hashes & self._mask] = True

    def find(self, values: Keys) -> tuple[Indices, Indices]:
        """Places of the values that are there, and which hash each is."""
        places = np.flatnonzero(self._flags[values & self._mask])
        if not len(self._hashes):
            return places[:0], places[:0]
        at = np.minimum(np.searchsorted(self._hashes, values[places]), len(self._hashes) - 1)
        hit = self._hashes[at] == values[places]
        return places[hit], at[hit]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grams:
    """The n-grams of one width."""

    width: int
    share: float
    """Of a passage's n-grams that a text must hold."""
    first: int
    """Feature of the first hash."""
    hashes: Keys
    """Ascending."""
    pointers: Indices
    """[hashes + 1] into `passages`; an n-gram of too many passages points to none."""
    passages: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int32]
    """[P] different n-grams of each passage that point to it."""
    sieve: Sieve


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Anchors:
    """Beginnings of questions, of one width."""

    width: int
    hashes: Keys
    pointers: Indices
    pairs: Indices
    sieve: Sieve


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Index:
    grams: tuple[Grams, ...]
    """By width, ascending."""
    anchors: tuple[Anchors, ...]
    first_pair: int
    """Feature of the first pair."""
    pair_items: Indices
    questions: Ragged
    answers: Ragged
    """Of all pairs, one after another."""
    answer_pointers: Indices
    """[pairs + 1] into `answers`."""
    items: Ragged
    """Items of each passage."""
    lengths: Indices
    """[P] tokens of each passage."""
    is_question: npt.NDArray[np.bool_]
    """[P]"""
    visual: npt.NDArray[np.bool_]
    """[items]"""
    first_picture: int
    """Feature of the first picture."""
    image_keys: Keys
    """Ascending asset keys of images of the inputs that are pictures of a benchmark, one for each match."""
    image_pictures: Indices
    image_scores: npt.NDArray[np.float64]
    image_measures: npt.NDArray[np.int8]
    """Place in images.MEASURES."""
    image_pages: npt.NDArray[np.bool_]
    """Whether the match is of pages that only look alike."""
    picture_items: Ragged
    """Items of each picture."""

    @property
    def num_features(self) -> int:
        return self.first_picture + len(self.picture_items.sizes)


def build(searched: Searched, ngrams: Mapping[int, float]) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of everything but the pictures."""
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "widths": np.array(sorted(ngrams), np.int64),
        "shares": np.array([ngrams[width] for width in sorted(ngrams)], np.float64),
        "visual": np.array(searched.visual, np.bool_),
        "lengths": searched.words.sizes,
        "is_question": np.array([passage.part == "question" for passage in searched.passages], np.bool_),
        "pair_items": np.array([pair.item for pair in searched.pairs], np.int64),
        "answer_pointers": np.cumsum([0, *(len(pair.answers) for pair in searched.pairs)]),
    }
    lists = {
        "items": [np.array(passage.items, np.uint64) for passage in searched.passages],
        "questions": [pair.question for pair in searched.pairs],
        "answers": [answer for pair in searched.pairs for answer in pair.answers],
    }
    for name, values in lists.items():
        arrays |= _parts(name, as_ragged(values))
    for width in ngrams:
        arrays |= {f"gram{width}-{name}": array for name, array in _grams(searched.words, width).items()}
    for width in ANCHORS:
        arrays |= {f"anchor{width}-{name}": array for name, array in _anchors(searched, width).items()}
    return arrays


def _parts(name: str, lists: Ragged) -> dict[str, npt.NDArray[np.generic]]:
    return {f"{name}-values": lists.values, f"{name}-starts": lists.starts}


def _grams(words: Ragged, width: int) -> dict[str, npt.NDArray[np.generic]]:
    found = shingles(words, width)
    passage = np.repeat(np.arange(len(found.sizes)), found.sizes)
    order = np.lexsort((passage, found.values))
    values, passage = found.values[order], passage[order]
    new = np.ones(len(values), np.bool_)
    new[1:] = (values[1:] != values[:-1]) | (passage[1:] != passage[:-1])
    values, passage = values[new], passage[new]
    hashes, counts = np.unique(values, return_counts=True)
    own = np.repeat(counts <= TEMPLATE_PASSAGES, counts)
    return {
        "hashes": hashes,
        "pointers": np.cumsum([0, *np.where(counts <= TEMPLATE_PASSAGES, counts, 0).tolist()]),
        "passages": passage[own].astype(np.int32),
        "sizes": np.bincount(passage[own], minlength=len(found.sizes)).astype(np.int32),
    }


def _anchors(searched: Searched, width: int) -> dict[str, npt.NDArray[np.generic]]:
    longer = next((one for one in ANCHORS if one > width), None)
    own = [
        number
        for number, pair in enumerate(searched.pairs)
        if len(pair.question) >= width and (longer is None or len(pair.question) < longer)
    ]
    values = shingles(as_ragged([searched.pairs[number].question[:width] for number in own]), width).values
    order = np.argsort(values, kind="stable")
    hashes, counts = np.unique(values, return_counts=True)
    return {
        "hashes": hashes,
        "pointers": np.cumsum([0, *counts.tolist()]),
        "pairs": np.array(own, np.int64)[order],
    }


def save(arrays: Mapping[str, npt.NDArray[np.generic]], folder: Path) -> None:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


@lru_cache(maxsize=1)
def load(folder: Path) -> Index:
    """The index that `save` wrote; its arrays are mapped, so that all workers share them."""

    def array(name: str) -> Any:
        return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def ragged(name: str) -> Ragged:
        return Ragged(values=array(f"{name}-values"), starts=array(f"{name}-starts"))

    grams: list[Grams] = []
    first = 0
    for width, share in zip(array("widths").tolist(), array("shares").tolist(), strict=True):
        parts = {name: array(f"gram{width}-{name}") for name in _ARRAYS}
        sieve = Sieve(parts["hashes"])
        grams.append(Grams(width=width, share=share, first=first, sieve=sieve, **parts))
        first += len(parts["hashes"])
    anchors = [
        Anchors(width=width, sieve=Sieve(parts["hashes"]), **parts)
        for width in ANCHORS
        for parts in [{name: array(f"anchor{width}-{name}") for name in ("hashes", "pointers", "pairs")}]
        if len(parts["hashes"])
    ]
    plain: dict[str, Any] = {
        name: array(name)
        for name in (
            "pair_items", "answer_pointers", "lengths", "is_question", "visual",
            "image_keys", "image_pictures", "image_scores", "image_measures", "image_pages",
        )
    }  # fmt: skip
    return Index(
        grams=tuple(grams),
        anchors=tuple(anchors),
        first_pair=first,
        first_picture=first + len(plain["pair_items"]),
        items=ragged("items"),
        questions=ragged("questions"),
        answers=ragged("answers"),
        picture_items=ragged("picture_items"),
        **plain,
    )


def expand(pointers: Indices, at: Indices) -> tuple[Indices, Indices]:
    """For each of `at` the run pointers[k] .. pointers[k + 1]: which of `at` it is, and the places, one after another."""
    sizes = pointers[at + 1] - pointers[at]
    which = np.repeat(np.arange(len(at)), sizes)
    ends = np.cumsum(sizes)
    places = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(pointers[at] - (ends - sizes), sizes)
    return which, places


def as_items(lists: Ragged, numbers: Sequence[int] | Indices) -> list[list[int]]:
    return [lists.values[lists.starts[k] : lists.starts[k + 1]].astype(np.int64).tolist() for k in numbers]
