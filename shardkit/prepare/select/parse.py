"""Text -> condition: the language of --where, a grammar that lark parses. Nothing of it is ever run as a program.

    width >= 256 and language in ('en', 'de') and not any(class == 'blank')

There are no calls, no attributes of anything but metadata, no powers, no loops: what the grammar has no rule for cannot be
said. The LALR parser keeps its stack in a list, patterns go to RE2 (linear time), and length and depth are bounded.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from shardkit.errors import ConfigError
from shardkit.prepare.select.tree import Node

MAX_LENGTH = 10_000
"""Characters of a condition."""
MAX_DEPTH = 50
"""Brackets, `not` and arithmetic inside one another. `and` and `or` in a row are one level, however many they are."""
_DIGITS = 40
_SHOWN = 30
_HINT = "see docs/select.md for the language, and `shardkit select --help` for the columns"

GRAMMAR = r"""
?start: or_
?or_: and_ (OR and_)*
?and_: not_ (AND not_)*
?not_: NOT not_ -> not_
     | test
?test: sum COMPARE sum -> compare
     | sum IN "(" choice ("," choice)* ")" -> in_
     | sum NOT IN "(" choice ("," choice)* ")" -> not_in
     | sum IS NULL -> is_null
     | sum IS NOT NULL -> is_not_null
     | sum LIKE string -> like
     | sum NOT LIKE string -> not_like
     | sum MATCHES string -> matches
     | sum NOT MATCHES string -> not_matches
     | sum
?sum: product
    | sum SIGN product -> arithmetic
?product: unary
        | product FACTOR unary -> arithmetic
?unary: SIGN unary -> signed
      | atom
?atom: literal
     | name
     | "(" or_ ")"
     | ANY "(" or_ ")" -> any_
     | ALL "(" or_ ")" -> all_
?choice: literal
       | SIGN NUMBER -> signed_number
?literal: NUMBER -> number
        | string
        | TRUE -> true
        | FALSE -> false
string: STRING
name: NAME ("." (NAME | STRING))*

COMPARE: "==" | "!=" | "<=" | ">=" | "<>" | "<" | ">" | "="
SIGN: "+" | "-"
FACTOR: "*" | "/"
AND.2: /and\b/i
OR.2: /or\b/i
NOT.2: /not\b/i
IN.2: /in\b/i
IS.2: /is\b/i
NULL.2: /null\b/i
LIKE.2: /like\b/i
MATCHES.2: /matches\b/i
ANY.2: /any\b(?=\s*\()/i
ALL.2: /all\b(?=\s*\()/i
TRUE.2: /true\b/i
FALSE.2: /false\b/i
NAME: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?(?![A-Za-z0-9_.])/
STRING: /'([^']|'')*'/ | /"([^"]|"")*"/
%ignore /\s+/
"""


def parse(text: str) -> Node:
    """The condition that `text` says.

    Raises:
        ConfigError: where it is none, or is too long or too deep.
    """
    if len(text) > MAX_LENGTH:
        raise ConfigError(f"--where has {len(text)} characters, the limit is {MAX_LENGTH}", hint=_HINT)
    if not text.strip():
        raise ConfigError("--where is empty", hint=_HINT)
    try:
        return _parser().parse(text)  # type: ignore[return-value]  # the tree that _Build makes, not lark's own
    except UnexpectedInput as error:
        raise ConfigError(f"--where cannot be read: {_told(error, text)}", hint=_HINT) from None


def _told(error: UnexpectedInput, text: str) -> str:
    at: int = error.pos_in_stream  # type: ignore[assignment]  # the class says None, all that are raised have a place
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return "it ends too early"
    excerpt = text[at : at + _SHOWN].encode("unicode_escape").decode("ascii")
    more = "..." if len(text) > at + _SHOWN else ""
    if isinstance(error, UnexpectedCharacters) and text[at] in "'\"":
        return f"the text that begins at character {at + 1} has no end: {excerpt}{more}"
    return f"character {at + 1} begins what has no place there: {excerpt}{more}"


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", transformer=_Build(), maybe_placeholders=False)


def _node(kind: str, *parts: Node, value: Any = None) -> Node:
    node = Node(kind=kind, value=value, parts=parts)
    if node.depth > MAX_DEPTH:
        raise ConfigError(f"--where is nested more than {MAX_DEPTH} deep", hint="write it with fewer brackets")
    return node


def _text(token: Token) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


@v_args(inline=True)
class _Build(Transformer[Token, Node]):
    """Each rule of the grammar as it is met: children first, so nothing here calls itself."""

    def or_(self, *found: Node | Token) -> Node:
        return _node("or", *(part for part in found if isinstance(part, Node)))

    def and_(self, *found: Node | Token) -> Node:
        return _node("and", *(part for part in found if isinstance(part, Node)))

    def not_(self, _word: Token, part: Node) -> Node:
        return _node("not", part)

    def compare(self, left: Node, sign: Token, right: Node) -> Node:
        return _node("compare", left, right, value={"=": "==", "<>": "!="}.get(str(sign), str(sign)))

    def in_(self, operand: Node, _in: Token, *choices: Node) -> Node:
        return _node("in", operand, *choices, value=True)

    def not_in(self, operand: Node, _not: Token, _in: Token, *choices: Node) -> Node:
        return _node("in", operand, *choices, value=False)

    def is_null(self, operand: Node, *_words: Token) -> Node:
        return _node("is_null", operand, value=True)

    def is_not_null(self, operand: Node, *_words: Token) -> Node:
        return _node("is_null", operand, value=False)

    def like(self, operand: Node, _word: Token, pattern: Node) -> Node:
        return _node("like", operand, pattern, value=True)

    def not_like(self, operand: Node, _not: Token, _word: Token, pattern: Node) -> Node:
        return _node("like", operand, pattern, value=False)

    def matches(self, operand: Node, _word: Token, pattern: Node) -> Node:
        return _node("matches", operand, pattern, value=True)

    def not_matches(self, operand: Node, _not: Token, _word: Token, pattern: Node) -> Node:
        return _node("matches", operand, pattern, value=False)

    def arithmetic(self, left: Node, sign: Token, right: Node) -> Node:
        return _node("arithmetic", left, right, value=str(sign))

    def signed(self, sign: Token, part: Node) -> Node:
        if part.kind == "literal" and isinstance(part.value, float):
            return _node("literal", value=-part.value if sign == "-" else part.value)
        return _node("negative", part) if sign == "-" else part

    def any_(self, _word: Token, part: Node) -> Node:
        return _node("any", part)

    def all_(self, _word: Token, part: Node) -> Node:
        return _node("all", part)

    def number(self, token: Token) -> Node:
        value = float(token) if len(token) <= _DIGITS else math.inf
        if not math.isfinite(value):
            raise ConfigError(f"the number {token[:_SHOWN]} is too large", hint="write a smaller one")
        return _node("literal", value=value)

    def signed_number(self, sign: Token, token: Token) -> Node:
        return self.signed(sign, self.number(token))

    def string(self, token: Token) -> Node:
        return _node("literal", value=_text(token))

    def true(self, _word: Token) -> Node:
        return _node("literal", value=True)

    def false(self, _word: Token) -> Node:
        return _node("literal", value=False)

    def name(self, *tokens: Token) -> Node:
        first, *rest = tokens
        parts = (str(first), *(_text(part) if part.type == "STRING" else str(part) for part in rest))
        return _node("name", value=parts)
