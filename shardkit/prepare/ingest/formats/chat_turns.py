"""Turns to segments: who speaks, what a turn carries beside its content, and the pictures that it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shardkit.prepare.ingest.draft import ImageRef
from shardkit.prepare.ingest.formats.image_value import image_ref
from shardkit.prepare.ingest.metadata import json_text
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import Segment

ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "prompter": "user",
    "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
    "bot": "assistant", "model": "assistant", "function_call": "assistant", "tool_call": "assistant", "tool": "tool",
    "observation": "tool", "function": "tool", "function_response": "tool", "tool_response": "tool",
}  # fmt: skip
"""Spelling in the dumps -> role."""

PLACEHOLDER = "<image>"

_CALLS = ("function_call", "tool_call")
"""Roles whose content is a call."""
_CARRIED = {
    "reasoning_content": ("reasoning_content", "reasoning", "thinking"),
    "tool_calls": ("tool_calls", "function_call"),
    "tools": ("tools",),
}
"""Name of a segment -> fields of a turn that hold it, the first that is there."""
_SAID = frozenset(["role", "from", "content", "value"])
_FOLLOWS = {
    "": ("system", "user"),
    "system": ("system", "user"),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant"),
}
"""Role -> the roles of the next turn."""

_THINK = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)


@dataclass(kw_only=True, slots=True)
class Talk:
    """What is shared by the turns of a row.

    Attributes:
        images: those of the row's own field first, then those that stand in turns.
        num_given: how many the row's field has; each is shown by one `<image>` mark or image part without address.
        asks: an empty last answer is no fault: the row holds what an answer is judged by.
        fields: what turns carry and no segment holds, for the metadata.
    """

    images: list[ImageRef] = field(default_factory=list)
    num_given: int = 0
    asks: bool = False
    changes: Counter[str] = field(default_factory=Counter)
    fields: list[dict[str, Any]] = field(default_factory=list)
    _shown: int = 0

    def segments(self, value: Any, name: str, part: str = "") -> list[Segment]:
        """The segments of a list of turns.

        Args:
            value: what the field `name` holds.
            part: what the names of the segments begin with.

        Raises:
            Bad: each case under its own reason.
        """
        if not isinstance(value, list) or not all(isinstance(turn, dict) for turn in value):
            raise Bad("wrong_type", f"field {plain(name)} is no list of turns")
        if not value:
            raise Bad("no_content", f"field {plain(name)} has no turns")
        self._shown = 0
        segments: list[Segment] = []
        before = ""
        for number, turn in enumerate(value, 1):
            role = _role(turn, number)
            if role not in _FOLLOWS[before]:
                raise Bad("turn_order", f"turn {number} is of {role} after {before or 'nothing'}")
            said = [*self._turn(turn, role, number, part, place=self.asks and number == len(value))]
            if role == before and segments:
                segments += _border(segments[-1], said)
            segments += said
            before = role
        answers = [segment for segment in segments if segment.role == "assistant"]
        if not answers or before in ("user", "system"):
            raise Bad("no_answer", "there is no answer to the last turn of the user")
        if self._shown != self.num_given:
            raise Bad(
                "placeholder_count",
                f"the turns have {self._shown} {PLACEHOLDER} marks, the row has {self.num_given} images",
            )
        return segments

    def _turn(self, turn: Mapping[str, Any], role: str, number: int, part: str, *, place: bool) -> Iterator[Segment]:
        """The segments of a turn; with `place` one of the assistant may be empty."""
        content = turn.get("content", turn.get("value"))
        names = {name: next((f for f in fields if full(turn.get(f))), "") for name, fields in _CARRIED.items()}
        reasoning, calls, tools = (
            carried(turn.get(names[name]), self.changes) for name in ("reasoning_content", "tool_calls", "tools")
        )
        if turn.get("from", turn.get("role")) in _CALLS and full(content):
            content, calls = "", carried(content, self.changes)
        place = place and role == "assistant"
        pieces = self._pieces(content, role, number, needed=not (calls or tools or place or role == "tool"))
        if role == "assistant" and reasoning is None and pieces and isinstance(pieces[0], str):
            block = _THINK.match(pieces[0])
            if block and "<think>" not in block.group(1):
                reasoning, pieces[0] = block.group(1).strip("\n"), pieces[0][block.end() :]
                self.changes["think_block_parted"] += 1
        says = any(isinstance(piece, int) or piece.strip() for piece in pieces)
        place = place and not (says or calls or reasoning)
        if (
            not says
            and not place
            and not (calls or tools or (role == "assistant" and reasoning) or role in ("system", "tool"))
        ):
            raise Bad("empty_turn", f"turn {number} of {role} is empty")
        more = {
            key: v for key, v in turn.items() if key not in (*_SAID, "weight") and key not in names.values() and full(v)
        }
        if more:
            self.fields.append({"turn": number, **({"part": part} if part else {}), "fields": more})

        # As fine-tuning files have it: an answer of weight 0 is no target.
        supervised = False if turn.get("weight") == 0 and role == "assistant" else None

        def segment(text: str, name: str = "") -> Segment:
            return Segment(kind="text", text=text, role=role, supervised=supervised, name=joined(part, name))

        if tools:
            yield segment(tools, "tools")
        if reasoning:
            yield segment(reasoning, "reasoning_content")
        if place or (role == "tool" and pieces in ([""], [])):
            yield segment("")
        for piece in () if place else pieces:
            if isinstance(piece, int):
                yield Segment(kind="image", image=piece, role=role, name=joined(part, ""))
            elif piece:
                yield segment(piece)
        if calls:
            yield segment(calls, "tool_calls")

    # ------------------------------------------------------------------ content
    def _pieces(self, content: Any, role: str, number: int, *, needed: bool) -> list[str | int]:
        """Texts, and places in `images`, in the order of the content."""
        if content is None and not needed:
            return []
        if isinstance(content, str):
            return self._marked(content)
        if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
            return self._parted(content, number)
        if role == "tool" and content is not None:  # a result that was not written out as text
            return [json_text(content, self.changes)]
        raise Bad("wrong_type", f"turn {number} has no text as its content")

    def _marked(self, text: str) -> list[str | int]:
        """`text` with its marks as images; in a row without images a mark is text like any other."""
        if not self.num_given:
            return [text]
        first, *others = text.split(PLACEHOLDER)
        pieces: list[str | int] = [first]
        for other in others:
            pieces += [self._next(), other]
        return pieces

    def _parted(self, parts: list[dict[str, Any]], number: int) -> list[str | int]:
        """The pieces of a content in parts; texts that follow one another are parted by a line end."""
        pieces: list[str | int] = []
        for part in parts:
            kind = part["type"]
            if kind in ("text", "input_text", "output_text") and isinstance(part.get("text"), str):
                first, *others = self._marked(part["text"])
                if pieces and isinstance(pieces[-1], str) and isinstance(first, str):
                    pieces[-1] = f"{pieces[-1]}\n{first}"
                else:
                    pieces.append(first)
                pieces += others
            elif kind in ("image", "image_url", "input_image"):
                pieces.append(self._image(part, number))
            else:
                raise Bad(
                    "wrong_type",
                    f"turn {number} has a part of the type {plain(str(kind), 30)}; texts and images are read",
                )
        return pieces

    def _image(self, part: Mapping[str, Any], number: int) -> int:
        value = next((part[name] for name in ("image_url", "image", "url", "path") if full(part.get(name))), None)
        if isinstance(value, dict) and isinstance(value.get("url"), str):
            value = value["url"]
        if value is None:
            return self._next()
        try:
            self.images.append(image_ref(value))
        except Bad as bad:
            raise Bad(bad.reason, f"turn {number}: {bad.detail}") from None
        return len(self.images) - 1

    def _next(self) -> int:
        """The next image of the row's field; where there are too few the count at the end says so."""
        self._shown += 1
        return self._shown - 1


def _border(last: Segment, said: list[Segment]) -> Iterator[Segment]:
    """What parts two turns of one role where an image stands at their border: a text behind a text begins a turn."""
    if last.image is not None:
        yield replace(last, kind="text", text="", image=None)
    if said and said[0].image is not None:
        yield replace(said[0], kind="text", text="", image=None)


def joined(part: str, name: str) -> str | None:
    """The name of a segment."""
    return ".".join(filter(None, (part, name))) or None


def _role(turn: Mapping[str, Any], number: int) -> str:
    name = turn.get("role", turn.get("from"))
    if not isinstance(name, str) or name.lower() not in ROLES:
        raise Bad("unknown_role", f"turn {number} has the role {plain(str(name), 30)}")
    return ROLES[name.lower()]


def full(value: Any) -> bool:
    """Whether a field holds anything."""
    return value is not None and value not in ("", [], {})


def carried(value: Any, changes: Counter[str]) -> str | None:
    """What a field carries, as text: lists and objects as canonical JSON; None for nothing."""
    if not full(value):
        return None
    return value if isinstance(value, str) else json_text(value, changes)
