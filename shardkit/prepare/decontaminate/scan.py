"""Which passages, pairs and pictures of the index stand in some rows; arrays in, arrays out.

rows -> units (paragraphs) -> n-grams that the index knows -> share of each passage that each unit holds
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shardkit.prepare.decontaminate.index import Anchors, Grams, Index, Indices, expand
from shardkit.prepare.decontaminate.passages import paragraphs
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.shingles import Ragged, shingles, tokens

GAP = 8
"""Tokens that may stand between a question and its answer: `Answer:`, `the answer is`, a name of who speaks."""
INSIDE = 8
"""N-grams that a unit must share with a passage of which it is a part: with 13 tokens a text of 20."""
OWN_SHARE = 0.1
"""Of what a unit shares with a passage: less than this beside a quotation is what happens to stand around it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """What is looked at of a row."""

    texts: tuple[str, ...]
    image_keys: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Units:
    texts: list[str]
    row: Indices
    """[U] place of its row, ascending."""
    words: Ragged
    hits: tuple[tuple[Indices, Indices], ...]
    """Of each width: (unit, hash in the index) of every n-gram that the index knows."""


def units_of(index: Index, rows: Sequence[Row]) -> Units:
    texts, row = [], []
    for place, one in enumerate(rows):
        for text in one.texts:
            own = paragraphs(text)
            texts += own
            row += [place] * len(own)
    words = tokens(texts)
    return Units(
        texts=texts,
        row=np.array(row, np.int64),
        words=words,
        hits=_hits(index, words),
    )


def _hits(index: Index, words: Ragged) -> tuple[tuple[Indices, Indices], ...]:
    """A longer n-gram of a passage begins with a shorter one, so only units that hold such a one are looked at again."""
    found: list[tuple[Indices, Indices]] = []
    own, part = np.arange(len(words.sizes)), words
    for grams in index.grams:
        lists = shingles(part, grams.width)
        places, hashes = grams.sieve.find(lists.values)
        units = own[np.searchsorted(lists.starts, places, side="right") - 1]
        points = grams.pointers[hashes + 1] > grams.pointers[hashes]
        found.append((units[points], hashes[points]))
        if grams is index.grams[0]:
            own = np.unique(units)
            part = take(words, own)
    return tuple(found)


def take(lists: Ragged, numbers: Indices) -> Ragged:
    """Some of the lists."""
    which, places = expand(lists.starts, numbers)
    del which
    sizes = lists.sizes[numbers]
    return Ragged(values=lists.values[places], starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shared:
    """S times that a unit holds enough of a passage, or is itself a part of one."""

    unit: Indices
    passage: Indices
    score: npt.NDArray[np.float64]
    """[S] share of the passage's n-grams that the unit holds; where `inside`, of the unit's that are the passage's."""
    inside: npt.NDArray[np.bool_]
    common: npt.NDArray[np.bool_]
    """[S] what is shared is common, and nothing beside it is."""


def shared(
    index: Index, grams: Grams, units: Units, hits: tuple[Indices, Indices], common: npt.NDArray[np.bool_] | None
) -> Shared:
    """Passages held by units, judged by n-grams of one width.

    Args:
        common: [hashes] which n-grams are common; None where that is not known yet.
    """
    which, places = expand(grams.pointers, hits[1])
    num_passages = len(grams.sizes)
    feature = hits[1][which]
    key = hits[0][which] * max(num_passages, 1) + grams.passages[places]
    order = np.lexsort((feature, key))
    key, feature = key[order], feature[order]
    fresh, new = np.ones(len(key), np.bool_), np.ones(len(key), np.bool_)
    new[1:] = key[1:] != key[:-1]
    fresh[1:] = new[1:] | (feature[1:] != feature[:-1])
    starts = np.flatnonzero(new)
    own = np.ones(len(key), np.bool_) if common is None else ~common[feature]

    def total(flags: npt.NDArray[np.bool_]) -> Indices:
        return np.add.reduceat(flags.astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)

    unit, passage = np.divmod(key[starts], max(num_passages, 1))
    distinct, distinct_own = total(fresh), total(fresh & own)
    met, met_own = total(np.ones(len(key), np.bool_)), total(own)
    sizes = grams.sizes[passage].astype(np.float64)
    forward = distinct / np.maximum(sizes, 1)
    holds = forward >= grams.share
    in_unit = np.maximum(units.words.sizes[unit] - grams.width + 1, 1)
    backward = met / in_unit
    widest = grams is index.grams[-1]
    inside = (backward >= grams.share) & (met >= INSIDE) & widest & ~holds
    own_sizes = sizes if common is None else _own_sizes(grams, common)[passage]
    rare = (distinct_own >= OWN_SHARE * distinct) & (distinct_own > 0)
    rare &= distinct_own >= grams.share * own_sizes
    is_common = np.where(holds, ~rare, 2 * met_own < met)
    chosen = np.flatnonzero(holds | inside)
    return Shared(
        unit=unit[chosen],
        passage=passage[chosen],
        score=np.where(holds, forward, backward)[chosen],
        inside=inside[chosen],
        common=is_common[chosen],
    )


def _own_sizes(grams: Grams, common: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """[P] n-grams of each passage that are not common."""
    counts = np.diff(grams.pointers)
    own = np.repeat(~common, counts)
    return np.bincount(np.asarray(grams.passages)[own], minlength=len(grams.sizes)).astype(np.float64)


def pairs_in(index: Index, units: Units) -> tuple[Indices, Indices]:
    """(row, pair) where a question stands in a row with one of its answers close behind; each once."""
    found = set()
    words = units.words
    for anchors in index.anchors:
        for place, pair in _anchored(anchors, words):
            unit = int(np.searchsorted(words.starts, place, side="right")) - 1
            row = int(units.row[unit])
            end = int(words.starts[np.searchsorted(units.row, row, side="right")])
            if (row, pair) not in found and _answered(index, words.values[place:end], pair):
                found.add((row, pair))
    ordered = np.array(sorted(found), np.int64).reshape(-1, 2)
    return ordered[:, 0], ordered[:, 1]


def _anchored(anchors: Anchors, words: Ragged) -> list[tuple[int, int]]:
    """(place of the first token, pair) wherever a question may begin."""
    lists = shingles(words, anchors.width)
    places, hashes = anchors.sieve.find(lists.values)
    list_of = np.searchsorted(lists.starts, places, side="right") - 1
    tokens_at = places - lists.starts[list_of] + words.starts[list_of]
    which, at = expand(anchors.pointers, hashes)
    return list(zip(tokens_at[which].tolist(), anchors.pairs[at].tolist(), strict=True))


def _answered(index: Index, following: Keys, pair: int) -> bool:
    """Whether the tokens begin with the question, and an answer comes within GAP tokens."""
    question = index.questions.values[index.questions.starts[pair] : index.questions.starts[pair + 1]]
    size = len(question)
    if len(following) <= size or not np.array_equal(following[:size], question):
        return False
    for number in range(int(index.answer_pointers[pair]), int(index.answer_pointers[pair + 1])):
        answer = index.answers.values[index.answers.starts[number] : index.answers.starts[number + 1]]
        near = following[size : size + GAP + len(answer)]
        for begin in np.flatnonzero(near == answer[0]).tolist():
            if begin <= GAP and np.array_equal(near[begin : begin + len(answer)], answer):
                return True
    return False


def pictures_in(index: Index, rows: Sequence[Row]) -> tuple[Indices, Indices]:
    """(row, match of the index) for every image of a row that is a picture of a benchmark."""
    row = np.repeat(np.arange(len(rows)), [len(one.image_keys) for one in rows])
    keys = np.array([key for one in rows for key in one.image_keys], np.uint64)
    low, high = np.searchsorted(index.image_keys, keys), np.searchsorted(index.image_keys, keys, side="right")
    sizes = high - low
    which = np.repeat(np.arange(len(keys)), sizes)
    ends = np.cumsum(sizes)
    at = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(low - (ends - sizes), sizes)
    return row[which].astype(np.int64), at.astype(np.int64)
