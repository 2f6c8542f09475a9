"""What of a benchmark's texts is looked for, and how.

    passage   a paragraph of a question, context or long answer: found by the share of its n-grams
    pair      a question with its short answer close behind it: found token by token

A short answer alone says nothing, nor does a question that a benchmark asks of several pictures: such a template is
found by the picture, or, in a benchmark without pictures, by the pair.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from shardkit.prepare.decontaminate.items import Bench, Item
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.dedup.shingles import Ragged, tokens

LONG_ANSWER = 20
"""Tokens from which on an answer tells an item by itself, as near duplicates of texts begin there."""
SHORT_QUESTION = 8
"""Tokens under which a question is looked for with its answer only."""
PLAIN_QUESTION = 13
"""Tokens under which a question about a picture may be asked of another picture too, and under which one paragraph of
several says nothing by itself."""
INSTRUCTION_ITEMS = 20
"""A paragraph that more questions than this have is an instruction, and no part of any item."""
PAIR_TOKENS = 4
"""Question and answer together; less is said by chance."""
QUESTION_TOKENS = 3
"""Of the question in a pair: an anchor shorter than this is met everywhere."""

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")


def paragraphs(text: str) -> list[str]:
    """The parts of a text between blank lines."""
    return [part for part in _PARAGRAPH.split(text) if part and not part.isspace()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    text: str
    part: str
    """question | context | answer"""
    items: tuple[int, ...]
    """Numbers of the items that have it, over all benchmarks."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pair:
    item: int
    question: Keys
    """Hashes of its tokens."""
    answers: tuple[Keys, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Searched:
    passages: tuple[Passage, ...]
    words: Ragged
    """Tokens of each passage."""
    pairs: tuple[Pair, ...]
    visual: tuple[bool, ...]
    """Of each item: whether it has a picture."""


def searched(benches: Sequence[Bench], *, shortest: int) -> Searched:
    """Everything that is looked for.

    Args:
        shortest: tokens of the shortest n-gram; a passage has at least as many.
    """
    items = [item for bench in benches for item in bench.items]
    questions = _Texts(item.question for item in items)
    answers = _Texts(answer for item in items for answer in item.answers)
    contexts = _Texts(item.context for item in items)
    templates = _templates(benches, questions, contexts)
    parts: list[tuple[int, str, str, bool]] = []
    pairs = []
    at = 0
    for number, item in enumerate(items):
        own = [answers.of(at + k) for k in range(len(item.answers))]
        at += len(own)
        long = [answer for answer, words in zip(item.answers, own, strict=True) if len(words) >= LONG_ANSWER]
        parts += _parts(number, [("answer", answer) for answer in long])
        if not templates[number]:
            parts += _parts(number, [("question", item.question), ("context", item.context)])
        pair = _pair(number, item, questions.of(number), own, template=templates[number])
        if pair is not None:
            pairs.append(pair)
    passages = [passage for passage, size in _distinct(parts) if size >= shortest]
    return Searched(
        passages=tuple(passages),
        words=tokens([passage.text for passage in passages]),
        pairs=tuple(pairs),
        visual=tuple(bool(item.pictures) for item in items),
    )


def _parts(number: int, texts: Sequence[tuple[str, str]]) -> Iterator[tuple[int, str, str, bool]]:
    """(item, part, paragraph, whether it is one of several)"""
    for part, text in texts:
        own = paragraphs(text)
        yield from ((number, part, paragraph, len(own) > 1) for paragraph in own)


def _distinct(parts: Sequence[tuple[int, str, str, bool]]) -> Iterator[tuple[Passage, int]]:
    """Each paragraph of a part once, with its tokens; without what only frames an item."""
    words = _Texts(paragraph for _, _, paragraph, _ in parts)
    found: dict[tuple[str, bytes], tuple[str, int, list[int]]] = {}
    for place, (number, part, paragraph, one_of_several) in enumerate(parts):
        own = words.of(place)
        if one_of_several and len(own) < PLAIN_QUESTION:
            continue  # a heading, `Answer the question below.`
        holders = found.setdefault((part, own.tobytes()), (paragraph, len(own), []))[2]
        if number not in holders[-1:]:
            holders.append(number)
    for (part, _), (text, size, holders) in found.items():
        if part != "question" or len(holders) <= INSTRUCTION_ITEMS:
            yield Passage(text=text, part=part, items=tuple(holders)), size


class _Texts:
    """Tokens of many texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = tokens(list(texts))

    def of(self, number: int) -> Keys:
        words: Keys = self._words.values[self._words.starts[number] : self._words.starts[number + 1]]
        return words


def _pair(number: int, item: Item, question: Keys, answers: Sequence[Keys], *, template: bool) -> Pair | None:
    short = tuple(
        answer for answer in answers if 0 < len(answer) < LONG_ANSWER and len(question) + len(answer) >= PAIR_TOKENS
    )
    if not short or len(question) < QUESTION_TOKENS:
        return None
    if item.pictures:
        wanted = not template and len(question) < PLAIN_QUESTION
    else:
        wanted = template or len(question) < SHORT_QUESTION
    return Pair(item=number, question=question, answers=short) if wanted else None


def _templates(benches: Sequence[Bench], questions: _Texts, contexts: _Texts) -> list[bool]:
    """Of each item: whether other items of its benchmark ask or say the same of something else."""
    about: dict[tuple[int, str, bytes], set[tuple[object, ...]]] = defaultdict(set)
    keys = []
    number = 0
    for place, bench in enumerate(benches):
        for item in bench.items:
            pictures = tuple((picture.asset_id, picture.frame) for picture in item.pictures)
            own = []
            if item.question:
                own.append((place, "question", questions.of(number).tobytes()))
                about[own[-1]].add((pictures, tuple(answer.casefold().strip() for answer in item.answers)))
            elif item.context and pictures:
                own.append((place, "context", contexts.of(number).tobytes()))
                about[own[-1]].add(pictures)
            keys.append(own)
            number += 1
    return [any(len(about[key]) > 1 for key in own) for own in keys]


def as_ragged(lists: Sequence[Keys]) -> Ragged:
    """Lists of hashes in one array."""
    return Ragged(
        values=np.concatenate([np.empty(0, np.uint64), *lists]),
        starts=np.concatenate([[0], np.cumsum([len(one) for one in lists], dtype=np.int64)]).astype(np.int64),
    )
