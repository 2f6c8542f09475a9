"""Sequences as lines for people, a piece each: targets in the colour of their objective where a terminal shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import click

_COLOURS = {
    "text": "green",
    "caption": "cyan",
    "ocr": "yellow",
    "answer": "bright_green",
    "chosen": "bright_blue",
    "rejected": "magenta",
}
"""Objective -> colour; what is no target is dim."""


_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What terminals obey: control characters, line ends, directions of writing."""


def plain(line: str) -> str:
    """`line` with what is a command to a terminal written out: names of files and texts are a stranger's."""
    return _COMMANDS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", line)


def sequence_lines(sequence: Mapping[str, Any]) -> Iterator[str]:
    """A headline, then a line for each piece: its objective, its tokens, and what it says.

    sequence 2a74536bfcf119e4, window 0: 70 tokens, 4 targets
      -           1  <|im_start|>
      -          64  [image 0, 224 x 224]
      caption     3  "A cat."
      caption     1  <|im_end|>
    """
    alternative = ""
    if sequence["alternatives"] > 1:
        alternative = f", alternative {sequence['alternative']} of {sequence['alternatives']}"
    yield (
        f"sequence {sequence['sequence_id']}, window {sequence['window']}{alternative}: "
        f"{sequence['num_tokens']} tokens, {sequence['num_supervised']} targets"
    )
    document = 0
    for piece in sequence["pieces"]:
        if piece["document"] != document:
            document = piece["document"]
            yield f"  document {document}"
        yield _piece(piece)
    if sequence["prompt"] is not None:
        yield plain(f"  prompt {sequence['prompt']}")


def _piece(piece: Mapping[str, Any]) -> str:
    name = piece["objective"]
    # Quoted as JSON, so that line ends and spaces are seen, and a text never looks like a control token.
    said = {"text": json.dumps(piece["text"], ensure_ascii=False), "control": piece["text"]}.get(
        piece["kind"], f"[{piece['text']}]"
    )
    line = plain(f"  {'-' if name == 'none' else name:<9} {piece['num_tokens']:>5}  {said}")
    return click.style(line, dim=True) if name == "none" else click.style(line, fg=_COLOURS[name])
