"""The compared form of a text."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardkit.text.normalize import normalize


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("  A  Cat\t sat\n", "a cat sat"),
        ("Stra\u00dfe", "strasse"),
        ("\uff21\uff22\uff23 \uff11", "abc 1"),
        ("\ufb01ne", "fine"),
        ("e\u0301", "\u00e9"),
        ("\u212b", "\u00e5"),
        ("\u304b\u3099", "\u304c"),
        ("a\u00a0b\u3000c\u2028d", "a b c d"),
        ("3 cats, 30 mice", "3 cats, 30 mice"),
        ("", ""),
        (" \n\t", ""),
    ],
)
def test_the_form_is(text: str, form: str) -> None:
    assert normalize(text) == form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a-b", "ab"),
        ("room 1", "room 2"),
        ("re\u0301sume\u0301", "resume"),
        ("a\u200bb", "ab"),
        ("\u0915\u0902", "\u0915"),
    ],
)
def test_what_differs_in_sign_or_mark_stays_different(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


@given(st.text())
def test_canonically_equal_texts_have_one_form(text: str) -> None:
    forms = {normalize(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert forms == {normalize(text)}


@given(st.text())
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


def test_every_character_beside_every_kind_of_mark_keeps_both_promises() -> None:
    marks = ["", "\u0301", "\u0345", "\u0323"]  # above, the one that folds to a letter, below
    odd = []
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.category(character) in ("Cn", "Co", "Cs", "Lo"):
            continue
        for mark in marks:
            text = "\u03b1" + character + mark
            form = normalize(text)
            if form != normalize(form) or form != normalize(unicodedata.normalize("NFD", text)):
                odd.append((hex(point), mark))
    assert odd == []


def test_ascii_and_the_general_way_agree() -> None:
    for point in range(128):
        text = f"x{chr(point)}Y"
        assert normalize(text) == normalize(text + "\u00e9")[:-1].rstrip(), hex(point)
