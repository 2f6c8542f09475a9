"""MiniMind's chat layout, from the structure of a dialogue: what stands where, and what of it the assistant says.

    im_start system LF TEXT LF LF # Tools ... im_end LF                             the tools of a talk, in one system turn
    im_start user LF IMAGE TEXT im_end LF                 texts and images in their order, nothing between them
    im_start assistant LF think_start LF think_end ... TEXT call_start LF {"name": ...} LF call_end im_end LF
                                                       ~~~~ targets ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    im_start user LF response_start LF TEXT LF response_end im_end LF               results in a row share a turn
    im_start assistant LF think_start LF                                            the end of a prompt, open for reasoning

Nothing is ever searched for: a mark in a text is text. What a prompt for an answer ends with (the header, `<think>` and its
line feed where the answer has reasoning, else the empty think block) is no target; all the assistant adds to it is one,
the closing mark and its line feed included.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from shardkit.sequence.recipes.dialogue import call_text, dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from shardkit.sequence.recipes.dialogue import Dialogue, Turn

_TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_BEHIND = "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
_CALL_FORM = '\n{"name": <function-name>, "arguments": <args-json-object>}\n'


class Piece(NamedTuple):
    """What is laid down in one go: a text, encoded with control tokens off; one control token; or the slots of an image."""

    text: str = ""
    mark: str = ""
    """The part that a control token plays: im_start, call_end, ..."""
    target: bool = False
    image: int | None = None
    """Which image of the example."""


def lay_out(dialogue: Dialogue, *, empty_think: bool, ends: bool = True, first_target: int = 0) -> list[Piece]:
    """The pieces of a dialogue in order.

    Args:
        empty_think: an answer without reasoning begins with an empty think block.
        ends: the mark that closes an answer is a target, with the line feed behind it.
        first_target: no turn before this one is a target.

    Raises:
        Refused: where tools and calls are not what they should be.
    """
    turns = dialogue.turns
    pieces: list[Piece] = []
    start = 0
    if dialogue.tools:
        start = int(bool(turns) and turns[0].role == "system")
        pieces += _tools_turn(turns[0] if start else None, dialogue.tools)
    for index in range(start, len(turns)):
        turn = turns[index]
        if turn.role == "assistant":
            pieces += _answer(turn, empty_think, ends=ends, learned=index >= first_target)
        elif turn.role == "tool":
            pieces += _result(turn, first=not _is_tool(turns, index - 1), last=not _is_tool(turns, index + 1))
        else:
            pieces += [_mark("im_start"), _text(f"{turn.role}\n"), *_said(turn), *_end()]
    return [piece for piece in pieces if piece.mark or piece.text or piece.image is not None]


def answer_prompt(*, open_thinking: bool) -> list[Piece]:
    """What stands before the answer that is asked for; the answer goes on with reasoning, or has none."""
    head = [_mark("im_start"), _text("assistant\n"), _mark("think_start")]
    return [*head, _text("\n")] if open_thinking else [*head, _text("\n\n"), _mark("think_end"), _text("\n\n")]


def _is_tool(turns: Sequence[Turn], index: int) -> bool:
    return 0 <= index < len(turns) and turns[index].role == "tool"


def _tools_turn(system: Turn | None, tools: Iterable[Any]) -> Iterator[Piece]:
    yield from (_mark("im_start"), _text("system\n"))
    if system is not None and (system.has_images or system.text()):
        yield from (*_said(system), _text("\n\n"))
    yield _text(_TOOLS_BEFORE)
    for tool in tools:
        yield from (_text("\n"), _text(dump(tool, "tools")))
    yield from (_text(_TOOLS_BEHIND), _mark("call_start"), _mark("call_end"), _text(" XML tags:\n"))
    yield from (_mark("call_start"), _text(_CALL_FORM), _mark("call_end"), *_end())


def _answer(turn: Turn, empty_think: bool, *, ends: bool, learned: bool) -> Iterator[Piece]:
    reasoning, content = turn.reasoning, _said(turn, learned)
    calls = [call_text(call) for call in turn.calls]
    thinks, acts = (
        learned and bool(there) and turn.supervised(name)
        for name, there in (("reasoning_content", reasoning), ("tool_calls", calls))
    )
    spoken = "".join(piece.text for piece in content if piece.target)
    if not (acts or (thinks and reasoning.strip()) or spoken.strip()):
        # White space alone, and the end of an answer that has nothing else to learn, would teach to say nothing.
        thinks, spoken = False, ""
    yield from (_mark("im_start"), _text("assistant\n"))
    if reasoning:
        yield from (_mark("think_start"), _text("\n"), _text(reasoning, thinks), _text("\n", thinks))
        yield from (_mark("think_end", thinks), _text("\n\n", thinks))
    elif empty_think:
        yield from (_mark("think_start"), _text("\n\n"), _mark("think_end"), _text("\n\n"))
    yield from content if spoken else [piece._replace(target=False) for piece in content]
    for index, call in enumerate(calls):
        yield _text("\n" if index or turn.has_images or turn.text() else "", acts)
        yield from (_mark("call_start", acts), _text(call, acts), _mark("call_end", acts))
    yield from _end(ends and bool(thinks or spoken or acts))


def _said(turn: Turn, learned: bool = False) -> list[Piece]:
    """Texts and images of a turn's content in their order; of an assistant without line feeds before them."""
    learned = learned and turn.role == "assistant"
    pieces = [
        _text(segment.text or "", learned and segment.supervised is not False)
        if segment.image is None
        else Piece(image=segment.image)
        for segment in turn.parts.get("", ())
    ]
    if turn.role == "assistant" and pieces and pieces[0].text.startswith("\n"):
        pieces[0] = pieces[0]._replace(text=pieces[0].text.lstrip("\n"))
    return pieces


def _result(turn: Turn, *, first: bool, last: bool) -> Iterator[Piece]:
    if first:
        yield from (_mark("im_start"), _text("user"))
    yield from (_text("\n"), _mark("response_start"), _text("\n"), *_said(turn), _text("\n"))
    yield _mark("response_end")
    if last:
        yield from _end()


@lru_cache(maxsize=2)
def _end(target: bool = False) -> tuple[Piece, Piece]:
    return _mark("im_end", target), _text("\n", target)


@lru_cache(maxsize=64)
def _mark(part: str, target: bool = False) -> Piece:
    return Piece("", part, target)


def _text(text: str, target: bool = False) -> Piece:
    return Piece(text, "", target)
