"""Shares of n-grams, held to sets of tuples; pairs and anchors."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from shardkit.prepare.decontaminate import index
from shardkit.prepare.decontaminate.items import Bench, Item
from shardkit.prepare.decontaminate.passages import paragraphs, searched
from shardkit.prepare.decontaminate.scan import Row, pairs_in, shared, units_of

NO_PICTURES = {
    "image_keys": np.empty(0, np.uint64),
    "image_pictures": np.empty(0, np.int64),
    "image_scores": np.empty(0),
    "image_measures": np.empty(0, np.int8),
    "image_pages": np.empty(0, np.bool_),
    "picture_items-values": np.empty(0, np.uint64),
    "picture_items-starts": np.zeros(1, np.int64),
}


def built(folder: Path, items: list[Item], ngrams: dict[int, float]) -> index.Index:
    found = searched([Bench(name="b", digest="", items=tuple(items))], shortest=min(ngrams))
    index.save({**index.build(found, ngrams), **NO_PICTURES}, folder)
    index.load.cache_clear()
    return index.load(folder)


def row(*texts: str) -> Row:
    return Row(texts=texts, image_keys=())


def grams(text: str, width: int) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[k : k + width]) for k in range(len(words) - width + 1)]


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_sets(tmp_path: Path, seed: int):
    draw = random.Random(seed)

    def text(size: int) -> str:
        return " ".join(draw.choice("abcd") for _ in range(size))

    contexts = [text(draw.randrange(5, 60)) for _ in range(12)]
    pieces = [context[draw.randrange(8) * 2 :][: draw.randrange(20, 120)].strip() for context in contexts]
    units = [" ".join((text(3), piece, text(draw.randrange(30)))) for piece in pieces]
    ngrams = {5: 0.4, 7: 0.3}
    found = built(tmp_path, [Item(label=str(k), context=context) for k, context in enumerate(contexts)], ngrams)
    looked = units_of(found, [row(unit) for unit in units])
    distinct = list(dict.fromkeys(context for context in contexts if len(context.split()) >= 5))
    for one, hits in zip(found.grams, looked.hits, strict=True):
        holds = shared(found, one, looked, hits, None)
        got = {
            (unit, passage): (score, inside)
            for unit, passage, score, inside in zip(
                holds.unit.tolist(), holds.passage.tolist(), holds.score.tolist(), holds.inside.tolist(), strict=True
            )
        }
        expected = {}
        for unit, unit_text in enumerate(units):
            here = grams(unit_text, one.width)
            for passage, passage_text in enumerate(distinct):
                own = set(grams(passage_text, one.width))
                forward = len(own & set(here)) / max(len(own), 1)
                met = sum(gram in own for gram in here)
                if forward >= one.share:
                    expected[unit, passage] = (forward, False)
                elif one.width == 7 and met >= 8 and met / len(here) >= one.share:
                    expected[unit, passage] = (met / len(here), True)
        assert got == expected
        assert got


def test_an_ngram_never_runs_across_paragraphs(tmp_path: Path):
    words = [f"w{k}" for k in range(20)]
    found = built(tmp_path, [Item(label="1", context=" ".join(words))], {8: 0.8, 13: 0.5})
    whole, parted = (
        " ".join(words),
        " ".join(words[:7]) + "\n\n" + " ".join(words[7:14]) + "\n \n" + " ".join(words[14:]),
    )
    assert [len(hits[0]) for hits in units_of(found, [row(whole)]).hits] == [13, 8]
    assert [len(hits[0]) for hits in units_of(found, [row(parted)]).hits] == [0, 0]
    assert [len(hits[0]) for hits in units_of(found, [row(*words)]).hits] == [0, 0]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("who is it? me and you",), True),
        (("Who is it?", "Answer: me and you."), True),
        (("So: who is it", "one two three four five six seven eight", "ME AND YOU"), True),
        (("who is it", "one two three four five six seven eight nine", "me and you"), False),
        (("who is it? me and me and you",), True),
        (("me and you who is it",), False),
        (("who is this? me and you",), False),
        (("who is it? me and",), False),
    ],
)
def test_a_pair_is_a_question_with_its_answer_close_behind(tmp_path: Path, texts: tuple[str, ...], found: bool):
    made = built(tmp_path, [Item(label="1", question="Who is it?", answers=("me and you",))], {8: 0.8})
    rows, pairs = pairs_in(made, units_of(made, [row("other"), row(*texts), row("me and you")]))
    assert (rows.tolist(), pairs.tolist()) == (([1], [0]) if found else ([], []))


@pytest.mark.parametrize("length", [3, 4, 5, 7])
def test_pairs_of_any_length_are_anchored(tmp_path: Path, length: int):
    question = " ".join(f"q{k}" for k in range(length))
    made = built(tmp_path, [Item(label="1", question=question, answers=("a b",))], {8: 0.8})
    assert pairs_in(made, units_of(made, [row(f"{question} a b")]))[1].tolist() == [0]


def test_an_ngram_of_many_passages_is_no_part_of_any(tmp_path: Path):
    frame = "choose the right one of the four answers that follow here and write its letter"
    items = [Item(label=str(k), question=f"{frame} {' '.join(f'w{k}x{n}' for n in range(9))}") for k in range(21)]
    made = built(tmp_path, items, {8: 0.8, 13: 0.5})
    looked = units_of(made, [row(frame), row(items[3].question)])
    holds = shared(made, made.grams[0], looked, looked.hits[0], None)
    assert (holds.unit.tolist(), holds.score.tolist()) == ([1], [1.0])
    assert made.grams[0].sizes.tolist() == [9] * 21
    assert built(tmp_path, items[:20], {8: 0.8, 13: 0.5}).grams[0].sizes.tolist() == [17] * 20


def test_paragraphs():
    assert paragraphs("a\nb\n\nc\n \t\n\n d\n\n") == ["a\nb", "c", "d"]
    assert paragraphs(" \n\n ") == []
