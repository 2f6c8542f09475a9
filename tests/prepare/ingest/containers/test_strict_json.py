"""Strict JSON: every silent repair of other readers is an error with a name, every value is exact."""

from __future__ import annotations

import json
import random

import pytest

from shardkit.prepare.ingest.containers.strict_json import MAX_DEPTH, parse
from shardkit.prepare.ingest.reasons import Bad

REFUSED = [
    (b'{"a": 1,}', "invalid_json"),
    (b"{'a': 1}", "invalid_json"),
    (b'{"a": 1} x', "invalid_json"),
    (b'{"a": None}', "invalid_json"),
    (b"// {}", "invalid_json"),
    (b"", "invalid_json"),
    (b'{"a": NaN}', "non_finite_number"),
    (b'{"a": [1, -Infinity]}', "non_finite_number"),
    (b'{"a": 1e999}', "non_finite_number"),
    (b'{"a": 1, "a": 2}', "duplicate_key"),
    (b'{"x": {"a": 1, "b": 3, "a": 2}}', "duplicate_key"),
    (b'{"a": 1, "\\u0061": 2}', "duplicate_key"),
    (b'{"a\\ud800": 1, "a\\ud801": 2}', "duplicate_key"),
    (b'{"a": "raw \t tab"}', "control_character"),
    (b'{"a": "raw \x00 nul"}', "control_character"),
    (b'{"a": "cut \xe6\x97 here"}', "invalid_utf8"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "too_deep"),
    (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
]


@pytest.mark.parametrize(("data", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_it_is_refused_by_name(data, reason):
    with pytest.raises(Bad) as bad:
        parse(data)
    assert bad.value.reason == reason


def test_the_message_names_the_field_of_a_number_that_is_none():
    with pytest.raises(Bad, match=r"score.*NaN"):
        parse(b'{"text": "b", "score": NaN}')


def test_the_message_names_the_byte_that_is_no_utf8():
    with pytest.raises(Bad, match=r"byte 4 .*0xff"):
        parse(b'{"a:\xff"}')


def test_long_integers_keep_every_digit():
    digits = "9" * 5000
    parsed = parse(
        b'{"a": 9223372036854775807, "b": 18446744073709551616, "c": -9223372036854775809, "d": '
        + digits.encode()
        + b"}"
    )
    assert parsed.value == {"a": 2**63 - 1, "b": "18446744073709551616", "c": "-9223372036854775809", "d": digits}
    assert parsed.changes == {"long_integer_as_text": 3}


def test_a_pair_of_surrogates_is_one_character_and_a_lone_half_is_replaced():
    assert parse(b'"\\ud83d\\ude00"').value == "\U0001f600"
    parsed = parse(b'{"a": "x\\ud800y\\udc00"}')
    assert parsed.value == {"a": "x\ufffdy\ufffd"}
    assert parsed.changes == {"surrogate_replaced": 2}


def test_what_only_looks_like_damage_is_kept():
    text = 'a ": b NaN 12345678901234567890123 [[[[ {"x": 1}'
    assert parse(json.dumps({"text": text}).encode()).value == {"text": text}
    deepest = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert parse(deepest).value is not None


def test_it_agrees_with_the_plain_reader_on_good_json():
    chance = random.Random(5)
    seen = set()

    def value(depth: int) -> object:
        kind = chance.randrange(8 if depth < 4 else 6)
        seen.add(kind)
        leaves = [
            None,
            True,
            chance.randrange(-(2**40), 2**40),
            chance.random() * 1e10,
            chance.choice(['q"\\:', "\u2028", "ä\n"]),
            "",
        ]
        if kind < 6:
            return leaves[kind]
        inner = [value(depth + 1) for _ in range(chance.randrange(5))]
        return inner if kind == 6 else {f'k{n}" :': one for n, one in enumerate(inner)}

    for _ in range(500):
        whole = value(0)
        parsed = parse(json.dumps(whole, ensure_ascii=chance.random() < 0.5).encode())
        assert parsed.value == whole
        assert not parsed.changes
    assert len(seen) == 8, "every kind of value was tried"
