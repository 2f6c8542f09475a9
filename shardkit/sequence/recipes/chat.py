"""MiniMind's chat layout, from the structure of a dialogue: what stands where, and what of it the assistant says.

    im_start system LF TEXT LF LF # Tools ... im_end LF                             the tools of a talk, in one system turn
    im_start user LF TEXT im_end LF
    im_start assistant LF think_start LF think_end ... TEXT call_start LF {"name": ...} LF call_end im_end LF
                                                       ~~~~ targets ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    im_start user LF response_start LF TEXT LF response_end im_end LF               results in a row share a turn

Nothing is ever searched for: a mark in a text is text. What a prompt for an answer ends with (the header, `<think>` and its
line feed where the answer has reasoning, else the empty think block) is no target; all the assistant adds to it is one,
the closing mark and its line feed included.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shardkit.records import Segment

ROLES = ("system", "user", "assistant", "tool")
PARTS = ("reasoning_content", "", "tool_calls")
"""Names of an assistant's segments, in the order of a turn; "" is the content, the only part of other roles."""
TOOLS = "tools"
"""The name of a segment of any role that lists tools."""

_TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_BEHIND = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
_CALL_FORM = '\n{"name": <function-name>, "arguments": <args-json-object>}\n'


class Refused(Exception):  # noqa: N818 - an answer about an example, not a failure
    """The dialogue cannot be laid out. `reason` is a name of REASONS of the recipes, `detail` one sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What is encoded in one go: a text with control tokens off, or one control token."""

    text: str = ""
    mark: str = ""
    """The part that a control token plays: im_start, call_end, ..."""
    target: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    role: str
    parts: dict[str, Segment] = field(default_factory=dict)
    """By their names, without those that are missing."""

    def text(self, name: str = "") -> str:
        return self.parts[name].text or "" if name in self.parts else ""

    def supervised(self, name: str) -> bool:
        """Whether a part of an assistant's turn is a target, unless it is empty."""
        return self.role == "assistant" and name in self.parts and self.parts[name].supervised is not False


def lay_out(segments: Iterable[Segment], *, empty_think: bool) -> list[Piece]:
    """The pieces of a dialogue in order.

    Args:
        empty_think: an answer without reasoning begins with an empty think block.

    Raises:
        Refused: where the segments are no dialogue, or tools and calls are not what they should be.
    """
    turns, tools = _turns(segments)
    pieces: list[Piece] = []
    if tools:
        opening = turns.pop(0) if turns and turns[0].role == "system" else None
        pieces += _tools_turn(opening.text() if opening else "", tools)
    for index, turn in enumerate(turns):
        if turn.role == "assistant":
            pieces += _answer(turn, empty_think)
        elif turn.role == "tool":
            pieces += _result(turn, first=not _is_tool(turns, index - 1), last=not _is_tool(turns, index + 1))
        else:
            pieces += [_mark("im_start"), _text(f"{turn.role}\n"), _text(turn.text()), _mark("im_end"), _text("\n")]
    return [piece for piece in pieces if piece.mark or piece.text]


def _turns(segments: Iterable[Segment]) -> tuple[list[Turn], list[Any]]:
    """Turns in order, and all tools of the talk."""
    turns: list[Turn] = []
    tools: list[Any] = []
    for segment in segments:
        name = segment.name or ""
        if segment.image is not None:
            raise Refused("has_images", "an image stands in it")
        if segment.role not in ROLES:
            raise Refused("no_dialogue", "a segment has no role" if segment.role is None else "a role is unknown")
        if name == TOOLS:
            tools += _read_list(segment.text or "", "tools")
            continue
        if name not in (PARTS if segment.role == "assistant" else ("",)):
            raise Refused("no_dialogue", f"a segment of {segment.role} has a name that is no part of its turn")
        joins = turns and turns[-1].role == segment.role == "assistant" and _follows(name, turns[-1])
        if not joins:
            turns.append(Turn(role=segment.role))
        turns[-1].parts[name] = segment
    return turns, tools


def _follows(name: str, turn: Turn) -> bool:
    """Whether the part `name` may still come in `turn`."""
    return all(PARTS.index(there) < PARTS.index(name) for there in turn.parts)


def _is_tool(turns: Sequence[Turn], index: int) -> bool:
    return 0 <= index < len(turns) and turns[index].role == "tool"


# --------------------------------------------------------------------------- turns
def _tools_turn(system: str, tools: Iterable[Any]) -> Iterator[Piece]:
    yield from (_mark("im_start"), _text("system\n"), _text(system), _text("\n\n" if system else ""))
    yield _text(_TOOLS_BEFORE)
    for tool in tools:
        yield from (_text("\n"), _text(_dump(tool, "tools")))
    yield from (_text(_TOOLS_BEHIND), _mark("call_start"), _mark("call_end"), _text(" XML tags:\n"))
    yield from (_mark("call_start"), _text(_CALL_FORM), _mark("call_end"), _mark("im_end"), _text("\n"))


def _answer(turn: Turn, empty_think: bool) -> Iterator[Piece]:
    reasoning = turn.text("reasoning_content").strip("\n")
    content = turn.text().lstrip("\n")
    calls = [_call(call) for call in _read_list(turn.text("tool_calls") or "[]", "tool calls")]
    thinks, says, acts = (
        bool(there) and turn.supervised(name) for name, there in zip(PARTS, (reasoning, content, calls), strict=True)
    )
    yield from (_mark("im_start"), _text("assistant\n"))
    if reasoning:
        yield from (_mark("think_start"), _text("\n"), _text(reasoning, thinks), _text("\n", thinks))
        yield from (_mark("think_end", thinks), _text("\n\n", thinks))
    elif empty_think:
        yield from (_mark("think_start"), _text("\n\n"), _mark("think_end"), _text("\n\n"))
    yield _text(content, says)
    for index, call in enumerate(calls):
        yield _text("\n" if index or turn.text() else "", acts)
        yield from (_mark("call_start", acts), _text(call, acts), _mark("call_end", acts))
    # The end of an answer that has nothing else to learn would teach to say nothing.
    answered = thinks or says or acts
    yield from (_mark("im_end", answered), _text("\n", answered))


def _result(turn: Turn, *, first: bool, last: bool) -> Iterator[Piece]:
    if first:
        yield from (_mark("im_start"), _text("user"))
    yield from (_text("\n"), _mark("response_start"), _text("\n"), _text(turn.text()), _text("\n"))
    yield _mark("response_end")
    if last:
        yield from (_mark("im_end"), _text("\n"))


def _mark(part: str, target: bool = False) -> Piece:
    return Piece(mark=part, target=target)


def _text(text: str, target: bool = False) -> Piece:
    return Piece(text=text, target=target)


# --------------------------------------------------------------------------- tools and calls, which are JSON
def _call(call: Any) -> str:
    """The line of a call between its marks; arguments that are a text stand as they are."""
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call["function"]
    if not isinstance(call, dict) or not isinstance(call.get("name"), str) or "arguments" not in call:
        raise Refused("bad_tools", "a tool call has no name or no arguments")
    arguments = call["arguments"]
    written = arguments if isinstance(arguments, str) else _dump(arguments, "tool calls")
    return _sayable(f'\n{{"name": "{call["name"]}", "arguments": {written}}}\n', "tool calls")


def _read_list(text: str, what: str) -> list[Any]:
    """The JSON list that `text` is; one object is a list of one."""
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused("bad_tools", f"the {what} are no JSON") from None
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise Refused("bad_tools", f"the {what} are no JSON list")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key comes twice")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _dump(value: Any, what: str) -> str:
    """One line of JSON as chat templates write it: spaces behind commas and colons, keys in their order, no escapes."""
    try:
        return _sayable(json.dumps(value, ensure_ascii=False, allow_nan=False), what)
    except (ValueError, RecursionError):
        raise Refused("bad_tools", f"the {what} hold what JSON cannot say") from None


def _sayable(text: str, what: str) -> str:
    r"""`text`, which no tokenizer can read where an escape like \ud800 left half a character in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused("bad_tools", f"the {what} hold half of a surrogate pair") from None
    return text
