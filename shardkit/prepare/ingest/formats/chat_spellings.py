"""Dialogues that are not written as a list of turns: exchanges, texts with the marks of speakers, trees of messages.

[{"user": "...", "assistant": "..."}, ...]             The Cauldron and FineVision, in `texts` beside `images`; Firefly
                                                           with human, Capybara with input and output
"\\n\\nHuman: ...\\n\\nAssistant: ..."                     HH-RLHF
{"prompt": {"text", "role", "replies": [...]}, ...}    OpenAssistant
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Turns = list[dict[str, Any]]

_EXCHANGES = (("user", "assistant"), ("human", "assistant"), ("input", "output"), ("question", "answer"))
"""(question, answer) as the fields of an exchange are called."""
_SPEAKERS = re.compile(r"(?:\A|\n\n)(Human|Assistant):")


def exchanged(value: Any) -> Turns | None:
    """The turns of a list of exchanges, a question and its answer each; None where it is none.

    What an exchange says besides goes with its answer.
    """
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        return None
    names = next((names for names in _EXCHANGES if all(one.keys() >= set(names) for one in value)), None)
    if names is None:
        return None
    turns: Turns = []
    for one in value:
        question, answer = (one[name] for name in names)
        beside = {key: inner for key, inner in one.items() if key not in names}
        turns += [{"role": "user", "content": question}, {**beside, "role": "assistant", "content": answer}]
    return turns


def spoken(text: Any) -> Turns | None:
    """The turns of a text that begins with the mark of a human speaker; None where it does not.

    The space behind a mark is no part of what is said.
    """
    if not isinstance(text, str) or not text.startswith(("\n\nHuman:", "Human:")):
        return None
    _, *pieces = _SPEAKERS.split(text)
    return [
        {"role": who.lower(), "content": said.removeprefix(" ")}
        for who, said in zip(pieces[::2], pieces[1::2], strict=True)
    ]


def continued(prompt: Any, answer: Any) -> Turns | None:
    """The turns of a prompt that ends with the mark of the one who answers, and of its answer; None for another prompt."""
    if not isinstance(prompt, str) or not isinstance(answer, str) or not prompt.rstrip(" ").endswith("\n\nAssistant:"):
        return None
    return spoken(prompt + answer)


def is_tree(row: Mapping[str, Any]) -> bool:
    """Whether a row is a tree of messages."""
    root = row.get("prompt")
    return isinstance(root, dict) and isinstance(root.get("replies"), list) and "text" in root


def branches(root: Mapping[str, Any]) -> Iterator[tuple[str, Turns]]:
    """(name of its last message, turns) of each dialogue of a tree: the way from its root to an answer that no answer
    follows.
    """
    for way in _ways(root, []):
        last = way[-1]
        yield str(last.get("message_id") or ""), [_turn(message) for message in way]


def _ways(message: Mapping[str, Any], before: list[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    way = [*before, message]
    replies = message.get("replies")
    longer = [
        found for reply in (replies if isinstance(replies, list) else ()) if isinstance(reply, dict)
        for found in _ways(reply, way)
    ]  # fmt: skip
    if longer:
        yield from longer
    elif message.get("role") == "assistant":
        yield way


def _turn(message: Mapping[str, Any]) -> dict[str, Any]:
    beside = {key: value for key, value in message.items() if key not in ("text", "role", "replies", "content")}
    return {**beside, "role": message.get("role"), "content": message.get("text")}
