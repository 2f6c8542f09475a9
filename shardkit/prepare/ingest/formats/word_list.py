"""Lists of cropped words, one picture a line without a tab.

    NAME.png, "text"     ICDAR's tasks of word recognition; a backslash stands before a quotation mark and before a backslash
    NAME.png text        MMOCR 0.x; the first space parts them, so a name has none

The second form cannot be told from a list of token ids where all texts are numbers, so only who asks for it reads it so.
"""

from __future__ import annotations

import re

from shardkit.prepare.ingest.formats.paddleocr import is_line, names_image

_QUOTED = re.compile(r"(?P<image>[^,\t]+),[ ]?\"(?P<text>.*)\"\s*")
_ESCAPED = re.compile(r"\\([\"\\])")


def quoted(line: str) -> tuple[str, str] | None:
    """Picture and text of a line of ICDAR's form; None for any other line."""
    found = _QUOTED.fullmatch(line.lstrip("\ufeff"))
    if found is None or not names_image(found["image"]):
        return None
    return found["image"].strip(), _ESCAPED.sub(r"\1", found["text"])


def spaced(line: str) -> tuple[str, str] | None:
    """Picture and text of a line of MMOCR's old form; None for any other line."""
    image, space, text = line.lstrip("\ufeff").partition(" ")
    return (image, text) if space and text.strip() and names_image(image) else None


def is_spaced(lines: list[str]) -> bool:
    """Whether lines are of MMOCR's old form, most of them, and cannot all be token ids."""
    found = [line for line in lines if spaced(line) is not None]
    return 2 * len(found) > len(lines) and not all(map(is_line, found))
