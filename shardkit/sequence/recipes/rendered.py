"""The text that a chat template makes of a dialogue, as pieces: which control tokens in it are the template's own.

    template  <s>[INST] {{ content }} [/INST]      data  "say <s>"      text  <s>[INST] say <s> [/INST]
                                                                              ~~~ a mark    ~~~ text

Where no text of the data could make or complete the name of a control token, every name in the rendered text is the
template's. Where one could, it is rendered a second time with stand-ins for such texts; put back, they must give the first
rendering again. What a template does to a text beyond trimming it then shows, and the dialogue is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shardkit.sequence.recipes.chat import Piece
from shardkit.sequence.recipes.refused import Refused
from shardkit.text.template import TemplateRefused

if TYPE_CHECKING:
    from shardkit.text.template import ChatTemplate

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private characters around the number of a stand-in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    text: str
    pieces: tuple[Piece, ...]
    """`mark` is the name of a control token here."""


def render(
    template: ChatTemplate, messages: list[dict[str, Any]], tools: list[Any], controls: Collection[str], **options: bool
) -> Rendered:
    """Raises:
    Refused: where the template does not render the dialogue, or alters a text that holds a control token's name.
    """

    def said(data: Mapping[str, Any]) -> str:
        try:
            return template.render(data["messages"], tools=data["tools"], **options)
        except TemplateRefused as refused:
            raise Refused("template_refused", str(refused)) from None

    data = {"messages": messages, "tools": tools}
    text = said(data)
    names = tuple(sorted(controls, key=len, reverse=True))
    texts = _Texts(names)
    hidden = texts.hide(data)
    if texts.in_keys:
        raise Refused("control_strings", "a key of its tools or calls holds a control token's name")
    if not texts.found:
        return Rendered(text=text, pieces=tuple(_marked(text, names)))
    if _OPEN in text:
        raise Refused("control_strings", "a text holds a control token's name, and one the mark of a stand-in")
    marked = said(hidden)
    for change in (str, str.strip):
        if texts.restored(marked, change) == text:
            return Rendered(text=text, pieces=tuple(texts.pieces(marked, change)))
    raise Refused("control_strings", "the template alters a text that holds a control token's name")


class _Texts:
    """The texts of a dialogue that could make or complete the name of a control token, and their stand-ins."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.found: list[tuple[str, bool]] = []
        """Each with whether it stands inside JSON."""
        self.in_keys = False

    def hide(self, value: Any, *, in_json: bool = False) -> Any:
        if isinstance(value, str):
            if not _may_speak(value, tuple(self._names)):
                return value
            self.found.append((value, in_json))
            return f"{_OPEN}{len(self.found) - 1}{_CLOSE}"
        if isinstance(value, list):
            return [self.hide(one, in_json=in_json) for one in value]
        if isinstance(value, dict):
            self.in_keys |= any(name in key for key in value for name in self._names)
            # The role is one of four words, and templates compare it.
            return {
                key: one if key == "role" else self.hide(one, in_json=in_json or _is_json(key, one))
                for key, one in value.items()
            }
        return value

    def restored(self, marked: str, change: Callable[[str], str]) -> str:
        return "".join(piece.text or piece.mark for piece in self.pieces(marked, change))

    def pieces(self, marked: str, change: Callable[[str], str]) -> list[Piece]:
        pieces: list[Piece] = []
        for number, part in enumerate(re.split(f"{_OPEN}([0-9]+){_CLOSE}", marked)):
            if number % 2 == 0:
                pieces += _marked(part, tuple(self._names))
                continue
            text, in_json = self.found[int(part)]
            written = json.dumps(text, ensure_ascii=False)[1:-1] if in_json else change(text)
            if written:
                pieces.append(Piece(text=written))
        return pieces


def _is_json(key: str, value: Any) -> bool:
    """Whether a template writes `value` as JSON: tools, and arguments that are no text."""
    return key == "tools" or (key == "arguments" and not isinstance(value, str))


@lru_cache(maxsize=1 << 12)
def _may_speak(text: str, names: tuple[str, ...]) -> bool:
    """Whether `text`, or what a template writes around it, could have the name of a control token with a part of it."""
    return any(
        name in text
        or (text and text in name)
        or any(text.endswith(name[:cut]) or text.startswith(name[cut:]) for cut in range(1, len(name)))
        for name in names
    )


def _marked(text: str, names: tuple[str, ...]) -> list[Piece]:
    """The pieces of a text that a template wrote; of two names at one place the longer counts."""
    if not names:
        return [Piece(text=text)] if text else []
    parts = re.split(f"({'|'.join(map(re.escape, names))})", text)
    return [Piece(mark=part) if at % 2 else Piece(text=part) for at, part in enumerate(parts) if part]
