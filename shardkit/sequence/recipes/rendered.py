"""The text that a chat template makes of a dialogue, as pieces: which control tokens in it are the template's own.

    template  <s>[INST] {{ content }} [/INST]      data  "say <s>"      text  <s>[INST] say <s> [/INST]
                                                                              ~~~ a mark    ~~~ text

A dialogue is rendered up to three times:

    as it is                                              the text of the prompt
    with a stand-in for every text of the data            the marks in it are what the template writes of itself
    with a stand-in for each text that could have part    put back, they give the text of the prompt again; marks between
    in the name of a control token, where there is one    them are the template's

Only where the last two agree on the marks is the dialogue taken. So a name that a template makes of pieces of the data
shows, and so does all it does to such a text but trimming it and writing it as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shardkit.sequence.recipes.chat import Piece
from shardkit.sequence.recipes.dialogue import ROLES
from shardkit.sequence.recipes.refused import Refused
from shardkit.text.template import TemplateRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from shardkit.text.template import ChatTemplate

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private characters around the number of a stand-in."""
_STAND_IN = re.compile(f"{_OPEN}([0-9]{{1,32}}){_CLOSE}")
_LONGEST = 34
"""A stand-in is as long as its text up to there: templates ask for the length of a call's id."""

_WORDS = frozenset([*ROLES, "function", "object", "string", "number", "integer", "boolean", "array", "null"])
"""Values of `role` and `type` by which templates choose what they write."""
_KEYS = frozenset([
    "role", "content", "reasoning_content", "tool_calls", "tool_call_id", "id", "type", "function", "name",
    "description", "parameters", "arguments", "properties", "required", "items", "enum", "default", "format", "title",
    "additionalProperties", "anyOf", "allOf", "oneOf", "nullable", "minimum", "maximum", "return", "strict",
])  # fmt: skip
"""Keys of turns, tools and JSON schemas, under which templates look. All others are the data's, and these are, too, in
arguments and as names of properties."""
_NAMES_BELOW = ("properties", "patternProperties", "definitions", "$defs")

_FORMS: tuple[Callable[[str], str], ...] = (
    str, str.strip, str.lstrip, str.rstrip,
    lambda text: text.strip("\n"), lambda text: text.lstrip("\n"), lambda text: text.rstrip("\n"),
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1], lambda text: json.dumps(text)[1:-1],
)  # fmt: skip
"""What a template may make of a text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    text: str
    pieces: tuple[Piece, ...]
    """`mark` is the name of a control token here."""


def render(
    template: ChatTemplate, messages: list[dict[str, Any]], tools: list[Any], controls: Collection[str], **options: bool
) -> Rendered:
    """Raises:
    Refused: where the template does not render the dialogue, or whose a mark in it is cannot be told.
    """

    def said(data: list[list[Any]]) -> str:
        turns, listed = data
        return template.render(turns, tools=listed, **options)

    data = [messages, tools]
    names = _names(tuple(controls))
    try:
        text = said(data)
    except TemplateRefused as refused:
        raise Refused("template_refused", str(refused)) from None
    # White space stays what it is where it can: templates ask whether a text has more.
    every = _StandIns(lambda text: bool(text.strip()) or names.may_speak(text), numbers=True)
    speaking = _StandIns(names.may_speak)
    hidden = speaking.hide(data)
    try:
        own = _marks(names.pieces(said(every.hide(data))))
        marked = said(hidden) if speaking.texts else text
    except TemplateRefused:
        raise Refused("control_strings", "the template does not render it with other texts in their places") from None
    pieces: list[Piece] = []
    for part, of_the_data in speaking.put_back(marked, text):
        pieces += [Piece(text=part)] if of_the_data else names.pieces(part)
    if _marks(pieces) != own:
        raise Refused("control_strings", "what the template makes of a text has part in a control token's name")
    return Rendered(text=text, pieces=tuple(piece for piece in pieces if piece.mark or piece.text))


def _marks(pieces: list[Piece]) -> list[str]:
    return [piece.mark for piece in pieces if piece.mark]


class _StandIns:
    """Puts stand-ins in the place of some texts, keys of the data included; equal texts have one.

    Args:
        hides: whether a text gets one.
        numbers: put others in the place of numbers, too.
    """

    def __init__(self, hides: Callable[[str], bool], *, numbers: bool = False) -> None:
        self._hides = hides
        self._numbers = numbers
        self.texts: dict[str, int] = {}
        """By their numbers."""

    def hide(self, value: Any, key: str = "", *, is_data: bool = False) -> Any:
        """`value`, which stands under `key`; with `is_data` in something all keys of which are the data's."""
        if isinstance(value, str):
            is_word = key in ("role", "type") and not is_data and value in _WORDS
            return value if is_word else self._text(value)
        if isinstance(value, list):
            return [self.hide(one, key, is_data=is_data) for one in value]
        if isinstance(value, dict):
            is_data |= key == "arguments"
            names = is_data or key in _NAMES_BELOW
            return {
                self._text(name) if names or name not in _KEYS else name: self.hide(
                    one, "" if names else name, is_data=is_data
                )
                for name, one in value.items()
            }
        if self._numbers and isinstance(value, int | float) and not isinstance(value, bool):
            return value - 1 if value > 0 else value + 1
        return value

    def _text(self, text: str) -> str:
        if not self._hides(text):
            return text
        number = self.texts.setdefault(text, len(self.texts))
        return f"{_OPEN}{number:0{max(1, min(len(text), _LONGEST) - 2)}}{_CLOSE}"

    def put_back(self, marked: str, text: str) -> Iterator[tuple[str, bool]]:
        """The parts of `text`, each with whether it is the data's; `marked` has stand-ins for these.

        Raises:
            Refused: where `text` is not what `marked` gives.
        """
        texts = list(self.texts)
        ends: list[dict[int, int]] = [{0: 0}]
        """For each part where it may end, and where it then begins."""
        for place, part in enumerate(_STAND_IN.split(marked)):
            forms = [part]
            if place % 2:
                forms = [form(texts[int(part)]) for form in _FORMS] if int(part) < len(texts) else []
            found: dict[int, int] = {}
            for start in ends[-1]:
                for form in forms:
                    if text.startswith(form, start):
                        found.setdefault(start + len(form), start)
            ends.append(found)
        if len(text) not in ends[-1]:
            raise Refused("control_strings", "the template alters a text that has part in a control token's name")
        borders = [len(text)]
        for found in reversed(ends[1:]):
            borders.append(found[borders[-1]])
        borders.reverse()
        for place, (start, end) in enumerate(pairwise(borders)):
            yield text[start:end], bool(place % 2)


class _Names:
    """The names of control tokens, looked for in texts."""

    def __init__(self, names: Collection[str]) -> None:
        longest_first = sorted(names, key=len, reverse=True)
        self._any = re.compile(f"({'|'.join(map(re.escape, longest_first))})" if names else "(?!)()")
        self._inside = "\0".join(names)
        cuts = [(name[:cut], name[cut:]) for name in names for cut in range(1, len(name))]
        self._begins, self._ends = (tuple({part[side] for part in cuts}) for side in (0, 1))

    def may_speak(self, text: str) -> bool:
        """Whether `text`, or what a template writes around it, could have a name with a part of it; or a stand-in."""
        return bool(text) and (
            text in self._inside
            or text.endswith(self._begins)
            or text.startswith(self._ends)
            or _OPEN in text
            or self._any.search(text) is not None
        )

    def pieces(self, text: str) -> list[Piece]:
        """The pieces of a text that a template wrote; of two names at one place the longer counts."""
        return [Piece(mark=part) if at % 2 else Piece(text=part) for at, part in enumerate(self._any.split(text))]


@lru_cache(maxsize=4)
def _names(names: tuple[str, ...]) -> _Names:
    return _Names(names)
