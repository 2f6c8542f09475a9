"""Quads: one text a line behind the corners of its box, as ICDAR and SROIE write them.

    x1,y1,x2,y2,x3,y3,x4,y4,text           the text is all that follows, commas and all
    x1,y1,x2,y2,x3,y3,x4,y4,script,text    where every line names one of the scripts of MLT
    x1,y1,x2,y2,x3,y3,x4,y4,0,"text"       where every line has the mark of RCTW: 1 is difficult to read
    x0, y0, x1, y1, "text"                 two opposite corners
    x0 y0 x1 y1 "text"                     the same without commas
    x1,y1,...,xn,yn,####text               any number of corners, where every line has the mark of CTW1500
    x1,y1,...,xn,yn,text                   six corners or more, where every line has as many at least, or where the first four are
                                           no upright box

`###` marks what nobody can read: its box is kept without a text. All lines have the form of the first; one that has not
excludes the page, because what stands in it is not known. Files of one set may lie in folders of their own, and label names begin with gt_.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from shardkit.prepare.ingest.containers.naming import Naming
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats.label import Label, Read, lines_label, number
from shardkit.prepare.ingest.formats.text_file import decoded, json_of
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem

_Quad = tuple[tuple[float, ...], str]
"""Corners, and the text of a line."""

FOLDERS = (
    "img", "imgs", "image", "images", "box", "boxes", "key", "keys", "entities", "annotations", "labels", "gt", "gts",
    "txt", "transcripts",
)  # fmt: skip
"""Names of folders that part a set into pictures and labels."""
NAMING = Naming(
    folders=FOLDERS,
    folder_ends=(
        "_localization_transcription_gt", "_annotations", "_images", "_labels", "_boxes", "_keys", "_imgs", "_txts", "_img",
        "_gts", "_box", "_txt", "_gt",
    ),
    parts={
        "Challenge4_Test_Task1_GT": "ch4_test",
        "Challenge2_Training_Task12_Images": "ch2_training", "Challenge2_Training_Task1_GT": "ch2_training",
        "Challenge2_Test_Task12_Images": "ch2_test", "Challenge2_Test_Task1_GT": "ch2_test",
        "0325updated.task1train(626p)": "", "0325updated.task2train(626p)": "",
    },
    label_starts=("gt_",),
)  # fmt: skip
"""Also the folders in which ICDAR 2013, ICDAR 2015 and SROIE are published."""

ILLEGIBLE = "###"
_OUTLINED = "####"
"""Stands between the corners of CTW1500 and their text."""
_BARE = re.compile(r"\s*" + r"(-?\d+(?:\.\d+)?)\s+" * 4 + r"\"(.*)\"\s*")
_TWO_CORNERS = re.compile(r"\s*" + r"-?\d+(?:\.\d+)?(?:\s*,\s*|\s+)" * 4 + r"\".*\"\s*")
_DIFFICULT = re.compile(r"([01]),\"(.*)\"\s*")
_MANY = 12
"""Numbers before a text from which on they are taken for corners: no receipt begins a line with so many."""
_SCRIPTS = frozenset(
    {"Arabic", "Latin", "Chinese", "Japanese", "Korean", "Bangla", "Hindi", "Symbols", "Mixed", "None"}
)


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in a file of quads.

    Raises:
        Bad: where it is none.
    """
    return label(decoded(data, changes), changes)


def read_receipt(data: bytes, changes: Counter[str]) -> Label:
    """The label in a text file of SROIE: quads, or its keys, which are published as .txt too.

    Raises:
        Bad: where it is neither.
    """
    return read_keys(data, changes) if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else read(data, changes)


def read_keys(data: bytes, changes: Counter[str]) -> Label:
    """What SROIE's key/ID.json says of a receipt: company, date, address, total; nothing of its text.

    Raises:
        Bad: where it is no object.
    """
    parsed = parse(json_of(data, changes))
    changes.update(parsed.changes)
    if not isinstance(parsed.value, dict):
        raise Bad("bad_label", "the .json is no object of what a receipt says")
    return Label(text="", silent=True, fields=parsed.value)


READERS: dict[str, Read] = {".gt.txt": read, ".txt": read, ".csv": read}
SROIE_READERS: dict[str, Read] = {**READERS, ".txt": read_receipt, ".json": read_keys}


def are_quads(text: str) -> bool:
    """Whether the first line is a quad: eight numbers in a row, or four before a text in quotation marks, begin no other text."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    fields = first.split(",", 8)
    is_quad = len(fields) == 9 and all(_number(value) is not None for value in fields[:8])
    return is_quad or _TWO_CORNERS.fullmatch(first) is not None


def label(text: str, changes: Counter[str]) -> Label:
    """The lines of a page in the order of the file.

    Raises:
        Bad: for a line that is no quad.
    """
    rows = [(k, line) for k, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not rows:
        raise Bad("empty_text", "the label has no line")
    quads = _quads(rows)
    fields, texts = _unmarked([words for _, words in quads])
    items: list[LayoutItem] = []
    for (points, _), written in zip(quads, texts, strict=True):
        legible = written.strip() != ILLEGIBLE and bool(written.strip())
        if not legible:
            changes["illegible_text" if written.strip() else "line_without_text"] += 1
        items.append(LayoutItem(level="line", text=written if legible else None, polygon=points, order=len(items)))
    return lines_label(items, fields=fields)


def _quads(rows: list[tuple[int, str]]) -> list[_Quad]:
    """The corners and text of every line, by the one form that all lines have.

    Raises:
        Bad: where they have none.
    """
    for form in (_outlined, _bare, _many_corners):
        found = [one for _, line in rows if (one := form(line)) is not None]
        if len(found) == len(rows):
            return found
    count = next((count for count in (8, 4) if _quad(rows[0][1], count) is not None), 8)
    outlines = [_outline(line) if count == 8 else None for _, line in rows]
    # Six corners show that a file has outlines among its quads; two more numbers alone may begin a text.
    if not any(one is not None and len(one[0]) >= _MANY for one in outlines):
        outlines = [None] * len(rows)
    quads = []
    for (k, line), outline in zip(rows, outlines, strict=True):
        quad = outline or _quad(line, count)
        if quad is None:
            raise Bad("bad_label", f"line {k} is no list of {count // 2} corners and a text: {plain(line, 40)}")
        quads.append(quad)
    return quads


def _unmarked(texts: list[str]) -> tuple[dict[str, Any], list[str]]:
    """What stands before every text and is no part of it (a script of MLT, the mark of RCTW), and the texts without it."""
    scripts = [text.partition(",")[0].strip() for text in texts]
    if all(script in _SCRIPTS and "," in text for script, text in zip(scripts, texts, strict=True)):
        return {"scripts": scripts}, [text.partition(",")[2] for text in texts]
    marked = [found for text in texts if (found := _DIFFICULT.fullmatch(text)) is not None]
    if len(marked) == len(texts):
        return {"difficult": [int(found[1]) for found in marked]}, [found[2] for found in marked]
    return {}, texts


def _outlined(line: str) -> _Quad | None:
    """The corners before the mark of CTW1500 and the text behind it; None for another line."""
    before, mark, text = line.partition(f",{_OUTLINED}")
    points = tuple(value for value in map(_number, before.split(",")) if value is not None)
    if not mark or len(points) < max(6, before.count(",") + 1) or len(points) % 2:
        return None
    return points, text


def _bare(line: str) -> _Quad | None:
    """Two corners and a text in quotation marks, parted by spaces; None for another line."""
    found = _BARE.fullmatch(line)
    return None if found is None else (tuple(map(float, found.groups()[:4])), found[5])


def _many_corners(line: str, least: int = _MANY) -> _Quad | None:
    """All the numbers that a line begins with as corners, and the rest as its text; None where they are few."""
    fields = line.split(",")
    count = next((k for k, value in enumerate(fields) if _number(value) is None), len(fields) - 1) // 2 * 2
    if count < least:
        return None
    return tuple(number(value.strip()) or 0.0 for value in fields[:count]), ",".join(fields[count:])


def _outline(line: str) -> _Quad | None:
    """Five corners or more among lines of four: the first four of an outline are no upright box, as those of a receipt are."""
    found = _many_corners(line, least=10)
    if found is None:
        return None
    xs, ys = {*found[0][0:8:2]}, {*found[0][1:8:2]}
    return None if len(xs) < 3 and len(ys) < 3 else found


def _quad(line: str, count: int) -> _Quad | None:
    """`count` coordinates and the text behind them; None for another line."""
    fields = line.split(",", count)
    points = tuple(value for value in map(_number, fields[:count]) if value is not None)
    if len(fields) <= count or len(points) < count:
        return None
    if count == 8:
        return points, fields[count]
    # More coordinates in place of a text: a quad that is broken further on.
    head, comma, _ = fields[count].partition(",")
    return None if comma and _number(head) is not None else (points, _unquoted(fields[count]))


def _number(text: str) -> float | None:
    return number(text.strip())


def _unquoted(text: str) -> str:
    """The text of a line of two corners, which stands in quotation marks."""
    bare = text.strip()
    if len(bare) >= 2 and bare[0] == bare[-1] == '"':
        return bare[1:-1]
    return bare
