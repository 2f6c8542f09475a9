"""chat: dialogues, preference pairs and plain texts, as JSON lines or Parquet.

    {"conversations": [{"role": "user", "content": "..."}, ...]}     MiniMind SFT, RLAIF and agents; ShareGPT with from and value
    {"messages": [...]}                                              OpenAI; content may be a list of text parts
    {"chosen": [...], "rejected": [...]}                             a preference pair: one example
    {"text": "..."}                                                  a text, as pretraining files have it

A turn becomes a segment with its role; what a turn carries beside its content becomes a segment with a name: tools,
reasoning_content, tool_calls. Where a row has system or tools beside its turns, they come before them. In preference pairs the names begin with chosen or rejected. One well-formed `<think>` block
at the head of an assistant's content is its reasoning; every other control string is text like any other.

A dialogue may begin with system turns; then user and assistant alternate, with tool turns after an assistant's. It has at
least one assistant turn, and the last assistant turn is not empty. Anything else is excluded under its own reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.digest import canonical_json
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.fields import found, text_field
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("jsonl", "parquet")
FIELDS = ("conversations", "chosen", "rejected", "text")

ROLES = {
    "system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "bot": "assistant",
    "model": "assistant", "function_call": "assistant", "tool": "tool", "observation": "tool", "function": "tool",
}  # fmt: skip
"""Spelling in the dumps -> role."""

_FOLLOWS = {
    "": ("system", "user"),
    "system": ("system", "user"),
    "user": ("assistant",),
    "assistant": ("user", "tool"),
    "tool": ("tool", "assistant"),
}
"""Role -> the roles of the next turn."""

_THINK = re.compile(r"\A\s*<think>(.*?)</think>\s*", re.DOTALL)


def drafts(record: Record, config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one row.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    names = {name: config.fields.get(name, name) for name in FIELDS}
    talk = names["conversations"] if names["conversations"] in row else "messages"
    changes = record.changes
    if names["chosen"] in row and names["rejected"] in row:
        used = [names["chosen"], names["rejected"]]
        chosen = _turns(row[used[0]], used[0], "chosen", changes)
        rejected = _turns(row[used[1]], used[1], "rejected", changes)
        segments = chosen + rejected
        relations = [
            Relation(kind="preference", segments=tuple(range(len(chosen))), scope="chosen"),
            Relation(kind="preference", segments=tuple(range(len(chosen), len(segments))), scope="rejected"),
        ]
    elif talk in row:
        opening = dict(_opening(row))
        used = [talk, *opening]
        segments = [*opening.values(), *_turns(row[talk], talk, "", changes)]
        relations = [Relation(kind="dialogue", segments=tuple(range(len(segments))))]
    elif names["text"] in row:
        used = [names["text"]]
        segments = [Segment(kind="text", text=text_field(row, names["text"]))]
        relations = []
    else:
        raise Bad(
            "missing_field", f"neither conversations, messages, chosen and rejected nor text (found: {found(row)})"
        )
    yield Draft(
        input=record.input,
        position=record.position,
        segments=tuple(segments),
        relations=tuple(relations),
        metadata={key: value for key, value in row.items() if key not in used},
        changes=changes,
    )


def _opening(row: Mapping[str, Any]) -> Iterator[tuple[str, Segment]]:
    """What a row says before its turns, by field: tools, and the system's text."""
    for name in ("tools", "system"):
        text = _carried(row, name)
        if text is not None and (name == "tools" or isinstance(row[name], str)):
            yield name, Segment(kind="text", text=text, role="system", name="tools" if name == "tools" else None)


def _turns(value: Any, field: str, part: str, changes: Counter[str]) -> list[Segment]:
    """The segments of a list of turns."""
    if not isinstance(value, list) or not all(isinstance(turn, dict) for turn in value):
        raise Bad("wrong_type", f"field {plain(field)} is no list of turns")
    if not value:
        raise Bad("no_content", f"field {plain(field)} has no turns")
    segments: list[Segment] = []
    before = ""
    for number, turn in enumerate(value, 1):
        role = _role(turn, number)
        if role not in _FOLLOWS[before]:
            raise Bad("turn_order", f"turn {number} is of {role} after {before or 'nothing'}")
        segments += _segments(turn, role, number, part, changes)
        before = role
    answers = [segment for segment in segments if segment.role == "assistant"]
    if not answers or before in ("user", "system"):
        raise Bad("no_answer", "there is no answer to the last turn of the user")
    return segments


def _role(turn: Mapping[str, Any], number: int) -> str:
    name = turn.get("role", turn.get("from"))
    if not isinstance(name, str) or name.lower() not in ROLES:
        raise Bad("unknown_role", f"turn {number} has the role {plain(str(name), 30)}")
    return ROLES[name.lower()]


def _segments(turn: Mapping[str, Any], role: str, number: int, part: str, changes: Counter[str]) -> Iterator[Segment]:
    content = turn.get("content", turn.get("value"))
    reasoning, calls, tools = (_carried(turn, name) for name in ("reasoning_content", "tool_calls", "tools"))
    if turn.get("from", turn.get("role")) == "function_call" and isinstance(content, str):
        content, calls = "", content
    if isinstance(content, list):
        content = _joined(content, number)
    if not isinstance(content, str) and not (content is None and (calls or tools)):
        raise Bad("wrong_type", f"turn {number} has no text as its content")
    text = content or ""
    if role == "assistant" and reasoning is None and (block := _THINK.match(text)) and "<think>" not in block.group(1):
        reasoning, text = block.group(1).strip("\n"), text[block.end() :]
        changes["think_block_parted"] += 1
    if not text.strip() and not (calls or tools or (role == "assistant" and reasoning) or role in ("system", "tool")):
        raise Bad("empty_turn", f"turn {number} of {role} is empty")
    for name, carried in (("tools", tools), ("reasoning_content", reasoning), ("", text), ("tool_calls", calls)):
        if carried or (role == "tool" and not name):
            yield Segment(kind="text", text=carried, role=role, name=".".join(filter(None, (part, name))) or None)


def _joined(parts: list[Any], number: int) -> str:
    """The text of a content in parts."""
    texts = []
    for part in parts:
        if not isinstance(part, dict) or part.get("type", "text") != "text" or not isinstance(part.get("text"), str):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise Bad("wrong_type", f"turn {number} has a part of the type {plain(str(kind), 30)}, only text is read")
        texts.append(part["text"])
    return "\n".join(texts)


def _carried(turn: Mapping[str, Any], name: str) -> str | None:
    """What a turn carries under `name`, as text: lists and objects as canonical JSON."""
    value = turn.get(name)
    if value is None or value in ("", [], {}):
        return None
    return value if isinstance(value, str) else canonical_json(value).decode()
