"""Tokens and shingles as hashes, beside the obvious version with Python sets."""

from __future__ import annotations

import random
import unicodedata

import numpy as np
import pytest

from shardkit.prepare.dedup import shingles as module
from shardkit.prepare.dedup.shingles import Ragged, distinct, shingles, tokens
from shardkit.text.normalize import normalize

SINGLES = [range(first, last + 1) for first, last in module._SINGLES]
GLYPHS = [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]


def obvious(text: str) -> list[str]:
    """Reference: tokens of the compared form, sign by sign."""
    found, word = [], ""
    for sign in [*normalize(text), " "]:
        counts = unicodedata.category(sign)[0] in "LMN" and ord(sign) not in GLYPHS
        single = counts and any(ord(sign) in some for some in SINGLES)
        if counts and not single:
            word += sign
            continue
        found += [word] * bool(word) + [sign] * single
        word = ""
    return found


def lists(ragged: Ragged) -> list[list[int]]:
    values, starts = ragged.values.tolist(), ragged.starts.tolist()
    return [values[starts[k] : starts[k + 1]] for k in range(len(starts) - 1)]


def same_partition(found: list[list[int]], expected: list[list[str]]) -> bool:
    """Whether hashes are equal where, and only where, tokens are."""
    pairs = {(h, t) for hs, ts in zip(found, expected, strict=True) for h, t in zip(hs, ts, strict=True)}
    return len(pairs) == len({h for h, _ in pairs}) == len({t for _, t in pairs})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" -- !", []),
        ("Total: 1,204.50 EUR", ["total", "1", "204", "50", "eur"]),
        ("\u6211\u559c\u6b22 tea\u3002", ["\u6211", "\u559c", "\u6b22", "tea"]),
        ("\u30ab\u30fc\u30c9", ["\u30ab", "\u30fc", "\u30c9"]),
        ("\uac00\ub098", ["\uac00", "\ub098"]),
        ("cafe\u0301 CAF\u00c9", ["caf\u00e9", "caf\u00e9"]),
        ("\u0928\u092e\u0938\u094d\u0924\u0947", ["\u0928\u092e\u0938\u094d\u0924\u0947"]),
        ("stra\u00dfe", ["strasse"]),
        ("\uff21\uff22\uff11", ["ab1"]),
        ("a\u2026b", ["a", "b"]),
        ("\u00bd cup", ["1", "2", "cup"]),
        ("\u2764\ufe0f", []),
    ],
)
def test_tokens_of_the_compared_form(text: str, expected: list[str]):
    assert obvious(text) == expected
    found = lists(tokens([text, "x"]))
    assert [len(one) for one in found] == [len(expected), 1]
    assert found[0] == [one[0] for one in lists(tokens(expected))]


def mixture(chance: random.Random, size: int) -> str:
    """Letters, marks, jamo, ligatures, signs of many scripts and some of anything."""
    pools = (
        "abc xyz AB12 ,.-_'\n",
        "\u00e9\u00c9\u00df\u0130\u0131\u03c3\u03c2\u1e9e\ufb01\u00bd\u00b4\u2026\u2160\u212b",
        "\u0301\u0323\u0345\u3099\u094d\u09be\u0e33\u05b0\ufe0f\u200d",
        "\u6211\u559c\u30ab\u3071\uff76\uff9e\u3131\u314f\u1100\u1161\u11a8\uac00\uac01\uf900\u3005",
    )
    signs = [chance.choice(chance.choice(pools)) for _ in range(size)]
    for place in range(0, size, 40):
        sign = chr(chance.randrange(0x30000))
        signs[place] = "." if unicodedata.category(sign) == "Cs" else sign
    return "".join(signs)


@pytest.mark.parametrize("seed", range(6))
def test_tokens_are_those_of_the_obvious_version(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_BLOCK_CHARACTERS", 300)
    chance = random.Random(seed)
    texts = [mixture(chance, chance.randrange(120)) for _ in range(150)]
    expected = [obvious(text) for text in texts]
    assert same_partition(lists(tokens(texts)), expected)
    assert sum(map(len, expected)) > 1000


def test_what_needs_no_normalization_keeps_its_form_beside_any_neighbour():
    signs = [chr(c) for c in range(0x30000) if unicodedata.category(chr(c)) != "Cs"]
    plain = [sign for sign in signs if module._look_up(ord(sign))[0] < module._BY_HAND]
    chance = random.Random(0)
    chance.shuffle(plain)
    for start in range(0, len(plain), 1000):
        some = plain[start : start + 1000]
        assert obvious("".join(some)) == obvious("".join(chr(module._look_up(ord(sign))[1]) for sign in some))
    assert len(plain) > 150_000


def test_a_text_does_not_depend_on_its_company():
    chance = random.Random(5)
    texts = [mixture(chance, 80) for _ in range(40)]
    together = lists(tokens(texts))
    assert together == [lists(tokens([text]))[0] for text in texts]


def test_hashes_are_the_same_on_every_machine():
    assert [f"{value:016x}" for value in tokens(["Hello, \u6211 cafe\u0301"]).values.tolist()] == HELLO


HELLO = ["74e7d094d146d6de", "89b0b4b8cbb529b2", "24aaa3d2b8401f13"]


@pytest.mark.parametrize("width", [1, 2, 5])
def test_shingles_do_not_reach_across_texts(width: int):
    texts = ["a b c d e f", "", "a b", "a b c d e f g", "x"]
    words = [text.split() for text in texts]
    expected = [[" ".join(w[k : k + width]) for k in range(len(w) - width + 1)] for w in words]
    assert same_partition(lists(shingles(tokens(texts), width)), expected)


def test_order_within_a_shingle_counts():
    one, two = lists(shingles(tokens(["a b", "b a"]), 2))
    assert one != two


def test_distinct_is_each_list_as_a_set():
    given = Ragged(values=np.array([3, 1, 3, 3, 2, 2], np.uint64), starts=np.array([0, 3, 3, 6]))
    assert lists(distinct(given)) == [[1, 3], [], [2, 3]]
    assert lists(distinct(Ragged(values=np.empty(0, np.uint64), starts=np.array([0, 0])))) == [[]]
    assert given.values.tolist() == [3, 1, 3, 3, 2, 2]
