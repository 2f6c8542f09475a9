"""JSON as its standard has it: what other readers repair or swallow in silence is an error with a name here.

orjson reads the line. Three things it lets pass are looked for beside it: a key that comes twice, an integer
over 64 bits (which would become a rounded double), and nesting. Only lines with such signs, and lines that
orjson refuses, go through the slow reader, which says what is wrong or keeps the value exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NoReturn

import orjson

from shardkit.prepare.ingest.reasons import Bad, plain

MAX_DEPTH = 128
"""Values nested deeper than this are refused: no dump of this field needs it, and readers downstream recurse."""

_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_SPACED_KEY = re.compile(rb'"[ \t\r\n]+:')
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(kw_only=True, slots=True)
class Parsed:
    value: Any
    changes: Counter[str] = field(default_factory=Counter)
    """What was altered to keep the value: `surrogate_replaced`, `long_integer_as_text`."""


def parse(data: bytes) -> Parsed:
    """The value of `data`, which must be one JSON value in UTF-8.

    Raises:
        Bad: with the reason and one sentence.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _slow(data)
    if _LONG_NUMBER.search(data) or _num_signs(data) != _num_keys(value, data):
        return _slow(data)
    return Parsed(value=value)


def _num_signs(data: bytes) -> int:
    """How often the sign of a key stands in the text, counted without a list of them: a document may hold millions."""
    return data.count(b'":') + sum(1 for _ in _SPACED_KEY.finditer(data))


def _num_keys(value: Any, data: bytes) -> int:
    """How many keys `value` holds: below the `":` of its text when a key came twice or a string holds that sign."""
    if type(value) is dict and not any(type(inner) in (dict, list) for inner in value.values()):
        return len(value)
    return _keys_below(value, 1) if data.count(b"[") + data.count(b"{") > 1 else 0


def _keys_below(value: Any, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise Bad("too_deep", f"values are nested deeper than {MAX_DEPTH}")
    total = 0
    if type(value) is dict:
        total = len(value)
        value = value.values()
    for inner in value:
        if type(inner) is dict or type(inner) is list:
            total += _keys_below(inner, depth + 1)
    return total


class _NotFinite:
    """Stands where a number is none, until its field is known."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Twice(Exception):  # noqa: N818 - a signal from inside the parser
    pass


def _slow(data: bytes) -> Parsed:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("invalid_utf8", f"byte {error.start} of the record, 0x{data[error.start]:02x}, is no UTF-8") from None
    changes: Counter[str] = Counter()

    def integer(digits: str) -> int | str:
        if len(digits) <= 20 and -(1 << 63) <= int(digits) < 1 << 64:
            return int(digits)
        changes["long_integer_as_text"] += 1
        return digits

    def real(digits: str) -> float | _NotFinite:
        number = float(digits)
        return number if math.isfinite(number) else _NotFinite(digits)

    try:
        value = json.loads(
            text, object_pairs_hook=_pairs, parse_int=integer, parse_float=real, parse_constant=_NotFinite
        )
    except _Twice as twice:
        raise Bad("duplicate_key", f"duplicate key: the field {twice} is named twice in one object") from None
    except RecursionError:
        raise Bad("too_deep", f"values are nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as error:
        _refuse(error)
    value = _exact(value, "", 1, changes)
    return Parsed(value=value, changes=changes)


def _refuse(error: json.JSONDecodeError) -> NoReturn:
    if error.msg.startswith("Invalid control character"):
        sign = plain(error.doc[error.pos : error.pos + 1])
        raise Bad("control_character", f"a raw {sign} stands in a string at character {error.pos}") from None
    near = plain(error.doc[max(0, error.pos - 10) : error.pos + 15], 30)
    raise Bad("invalid_json", f"{error.msg} at character {error.pos}, near: {near}") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(repr(plain(key)))
            seen.add(key)
    return value


def _exact(value: Any, name: str, depth: int, changes: Counter[str]) -> Any:
    """`value` with lone surrogates replaced; refused where a number is not finite or nesting is too deep."""
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE.search(value):
            return value
        clean, count = _SURROGATE.subn("\ufffd", value)
        changes["surrogate_replaced"] += count
        return clean
    if isinstance(value, _NotFinite):
        raise Bad("non_finite_number", f"field {plain(name) or '(top)'}: {plain(value.text)} is no finite JSON number")
    if depth > MAX_DEPTH:
        raise Bad("too_deep", f"values are nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        whole = {
            _exact(key, name, depth, changes): _exact(inner, key, depth + 1, changes) for key, inner in value.items()
        }
        if len(whole) != len(value):
            raise Bad("duplicate_key", "duplicate key: two fields are one name when lone surrogates are replaced")
        return whole
    if isinstance(value, list):
        return [_exact(inner, name, depth + 1, changes) for inner in value]
    return value
