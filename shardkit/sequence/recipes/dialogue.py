"""A dialogue out of an example's segments: turns with their parts, tools, and the messages that they are for others."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from shardkit.records import Segment
from shardkit.sequence.recipes.refused import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable

ROLES = ("system", "user", "assistant", "tool")
PARTS = ("reasoning_content", "", "tool_calls")
"""Names of an assistant's segments, in the order of a turn; "" is the content, the only part of other roles."""
TOOLS = "tools"
"""The name of a segment of any role that lists tools."""
SIDES = ("chosen", "rejected")
"""What the names of a preference pair's segments begin with."""
MAX_DEPTH = 128
"""Nesting of tools and calls, as of rows: writers of JSON and chat templates recurse."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    role: str
    parts: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    """By their names, without those that are missing. Only the content may be several: texts and images in their order."""

    def text(self, name: str = "") -> str:
        found = self.parts.get(name, ())
        return found[0].text or "" if len(found) == 1 else "".join(segment.text or "" for segment in found)

    @property
    def reasoning(self) -> str:
        return self.text("reasoning_content").strip("\n")

    @property
    def content(self) -> str:
        """What an assistant says, without line feeds before it; what another says, as it is. Without its images."""
        return self.text().lstrip("\n") if self.role == "assistant" else self.text()

    @property
    def has_images(self) -> bool:
        return any(segment.image is not None for segment in self.parts.get("", ()))

    @property
    def calls(self) -> list[Any]:
        """Raises Refused where the tool calls are no JSON list."""
        text = self.text("tool_calls")
        return read_list(text, "tool calls") if text else []

    def supervised(self, name: str) -> bool:
        """Whether a part of an assistant's turn is a target, unless it is empty."""
        return self.role == "assistant" and any(one.supervised is not False for one in self.parts.get(name, ()))

    def says_the_same(self, other: Turn) -> bool:
        """Whether role, texts and images are equal, whatever is supervised."""
        return self.role == other.role and all(self._shown(name) == other._shown(name) for name in PARTS)

    def _shown(self, name: str) -> list[str | int]:
        shown = [segment.text if segment.image is None else segment.image for segment in self.parts.get(name, ())]
        return [one for one in shown if one not in ("", None)]

    def message(self) -> dict[str, Any]:
        """The turn as chat templates and trainers take it; a content with images as a list of parts."""
        content: Any = self.text()
        if self.has_images:
            content = [
                {"type": "image"} if segment.image is not None else {"type": "text", "text": segment.text or ""}
                for segment in self.parts[""]
            ]
        message: dict[str, Any] = {"role": self.role, "content": content}
        if self.text("reasoning_content"):
            message["reasoning_content"] = self.text("reasoning_content")
        if self.calls:
            message["tool_calls"] = self.calls
        return message


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialogue:
    turns: tuple[Turn, ...]
    tools: tuple[Any, ...] = ()
    """All tools of the talk, as JSON values."""

    @property
    def has_opening(self) -> bool:
        """Whether a system turn or tools stand before the talk, or anywhere in it."""
        return bool(self.tools) or any(turn.role == "system" for turn in self.turns)

    def opened(self, text: str) -> Dialogue:
        """The same with a system turn at its head; without one where the text is empty."""
        if not text:
            return self
        opening = Turn(role="system", parts={"": (Segment(kind="text", role="system", text=text),)})
        return replace(self, turns=(opening, *self.turns))

    def __getitem__(self, part: slice) -> Dialogue:
        """The same with some of the turns."""
        return replace(self, turns=self.turns[part])

    def messages(self) -> list[dict[str, Any]]:
        """Raises Refused where tool calls are no JSON list."""
        return [turn.message() for turn in self.turns]


def read_dialogue(segments: Iterable[Segment], *, images: bool = False) -> Dialogue:
    """The dialogue that `segments` are.

    A segment a turn, but for the parts of an assistant, and for what stands beside an image: an image goes on with the
    turn before it where that is of its role, and so does a text behind an image.

    Args:
        images: whether images may stand in it.

    Raises:
        Refused: where they are none, their tools are no JSON, or images stand in them that may not.
    """
    turns: list[Turn] = []
    tools: list[Any] = []
    for segment in segments:
        name = segment.name or ""
        if segment.image is not None and not images:
            raise Refused("has_images", "an image stands in it")
        if segment.role not in ROLES:
            raise Refused("no_dialogue", "a segment has no role" if segment.role is None else "a role is unknown")
        if name == TOOLS:
            tools += read_list(segment.text or "", "tools")
            continue
        if name not in (PARTS if segment.role == "assistant" else ("",)):
            raise Refused("no_dialogue", f"a segment of {segment.role} has a name that is no part of its turn")
        if segment.image is not None and name:
            raise Refused("no_dialogue", f"an image is the {name} of a turn")
        if not (turns and _goes_on(turns[-1], segment)):
            turns.append(Turn(role=segment.role))
        parts = turns[-1].parts
        parts[name] = (*parts.get(name, ()), segment)
    return Dialogue(turns=tuple(turns), tools=tuple(tools))


def _goes_on(turn: Turn, segment: Segment) -> bool:
    """Whether `segment` belongs to `turn`, the last one so far."""
    if segment.role != turn.role:
        return False
    name, (*_, before) = list(turn.parts.items())[-1]
    if not name and not segment.name and (segment.image is not None or before.image is not None):
        return True
    return segment.role == "assistant" and _follows(segment.name or "", turn)


def _follows(name: str, turn: Turn) -> bool:
    """Whether the part `name` may still come in `turn`."""
    return all(PARTS.index(there) < PARTS.index(name) for there in turn.parts)


def read_pair(segments: Iterable[Segment], *, images: bool = False) -> tuple[Dialogue, Dialogue]:
    """The two dialogues of a preference pair, the chosen one first.

    Raises:
        Refused: where the segments are no pair, or one side is no dialogue.
    """
    sides: dict[str, list[Segment]] = {side: [] for side in SIDES}
    for segment in segments:
        side, _, name = (segment.name or "").partition(".")
        if side not in sides:
            raise Refused("no_pair", "a segment is neither of the chosen nor of the rejected side")
        sides[side].append(replace(segment, name=name or None))
    for side, found in sides.items():
        if not found:
            raise Refused("no_pair", f"there is no {side} side")
    chosen, rejected = (read_dialogue(found, images=images) for found in sides.values())
    return chosen, rejected


# --------------------------------------------------------------------------- tools and calls, which are JSON
def read_list(text: str, what: str) -> list[Any]:
    """The JSON list that `text` is; one object is a list of one.

    Raises:
        Refused: where it is none.
    """
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except ValueError:
        raise Refused("bad_tools", f"the {what} are no JSON") from None
    except RecursionError:
        raise _too_deep(what) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise _too_deep(what)
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise Refused("bad_tools", f"the {what} are no JSON list")
    return value


def _too_deep(what: str) -> Refused:
    return Refused("bad_tools", f"the {what} are nested deeper than {MAX_DEPTH}")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list)]
        level = list(chain.from_iterable(inner))
    return any(isinstance(one, dict | list) for one in level)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key comes twice")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def call_text(call: Any) -> str:
    """The line of a call between its marks; arguments that are a text stand as they are.

    Raises:
        Refused: where it is no call.
    """
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call["function"]
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or "arguments" not in call:
        raise Refused("bad_tools", "a tool call has no name or no arguments")
    arguments = call["arguments"]
    written = arguments if isinstance(arguments, str) else dump(arguments, "tool calls")
    return _sayable(f'\n{{"name": "{call["name"]}", "arguments": {written}}}\n', "tool calls")


def dump(value: Any, what: str) -> str:
    """One line of JSON as chat templates write it: spaces behind commas and colons, keys in their order, no escapes.

    Raises:
        Refused: where it holds what JSON or a tokenizer cannot read.
    """
    try:
        return _sayable(json.dumps(value, ensure_ascii=False, allow_nan=False), what)
    except ValueError:
        raise Refused("bad_tools", f"the {what} hold what JSON cannot say") from None


def _sayable(text: str, what: str) -> str:
    r"""`text`, which no tokenizer can read where an escape like \ud800 left half a character in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("bad_tools", f"the {what} hold half of a surrogate pair") from None
    return text
