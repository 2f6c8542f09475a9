"""Quads: one text a line behind the corners of its box, as ICDAR and SROIE write them.

    x1,y1,x2,y2,x3,y3,x4,y4,text           the text is all that follows, commas and all
    x1,y1,x2,y2,x3,y3,x4,y4,script,text    where every line names one of the scripts of MLT
    x0, y0, x1, y1, "text"                 two opposite corners
    x0 y0 x1 y1 "text"                     the same without commas
    x1,y1,...,xn,yn,####text               any number of corners, where every line has the mark of CTW1500
    x1,y1,...,xn,yn,text                   six corners or more, where every line has as many at least

`###` marks what nobody can read: its box is kept without a text. All lines have the form of the first; one that has not
excludes the page, because what stands in it is not known. Files of one set may lie in folders of their own, and label names begin with gt_.
"""

from __future__ import annotations

import re
from collections import Counter

from shardkit.prepare.ingest.containers.naming import Naming
from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.formats.label import Label, Read, lines_label, number
from shardkit.prepare.ingest.formats.text_file import decoded, json_of
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.records import LayoutItem

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
    """Whether the first line is a quad: eight whole numbers in a row begin no other text."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    fields = first.split(",", 8)
    return len(fields) == 9 and all(_number(value) is not None for value in fields[:8])


def label(text: str, changes: Counter[str]) -> Label:
    """The lines of a page in the order of the file.

    Raises:
        Bad: for a line that is no quad.
    """
    rows = [(k, line) for k, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not rows:
        raise Bad("empty_text", "the label has no line")
    quads: list[tuple[tuple[float, ...], str]] = []
    for form in (_outlined, _bare, _many_corners):
        read_so = [form(line) for _, line in rows]
        quads = [one for one in read_so if one is not None]
        if len(quads) == len(rows):
            break
    else:
        count = next((count for count in (8, 4) if _quad(rows[0][1], count) is not None), 8)
        quads = []
        for k, line in rows:
            quad = _quad(line, count)
            if quad is None:
                raise Bad("bad_label", f"line {k} is no list of {count // 2} corners and a text: {plain(line, 40)}")
            quads.append(quad)
    scripts = [words.partition(",")[0].strip() for _, words in quads]
    named = all(script in _SCRIPTS and "," in words for script, (_, words) in zip(scripts, quads, strict=True))
    items: list[LayoutItem] = []
    for points, words in quads:
        written = words.partition(",")[2] if named else words
        legible = written.strip() != ILLEGIBLE and bool(written.strip())
        if not legible:
            changes["illegible_text" if written.strip() else "line_without_text"] += 1
        items.append(LayoutItem(level="line", text=written if legible else None, polygon=points, order=len(items)))
    return lines_label(items, fields={"scripts": scripts} if named else {})


def _outlined(line: str) -> tuple[tuple[float, ...], str] | None:
    """The corners before the mark of CTW1500 and the text behind it; None for another line."""
    before, mark, text = line.partition(f",{_OUTLINED}")
    points = tuple(value for value in map(_number, before.split(",")) if value is not None)
    if not mark or len(points) < max(6, before.count(",") + 1) or len(points) % 2:
        return None
    return points, text


def _bare(line: str) -> tuple[tuple[float, ...], str] | None:
    """Two corners and a text in quotation marks, parted by spaces; None for another line."""
    found = _BARE.fullmatch(line)
    return None if found is None else (tuple(map(float, found.groups()[:4])), found[5])


def _many_corners(line: str) -> tuple[tuple[float, ...], str] | None:
    """All the numbers that a line begins with as corners, and the rest as its text; None where they are few."""
    fields = line.split(",")
    count = next((k for k, value in enumerate(fields) if _number(value) is None), len(fields) - 1) // 2 * 2
    if count < _MANY:
        return None
    return tuple(number(value.strip()) or 0.0 for value in fields[:count]), ",".join(fields[count:])


def _quad(line: str, count: int) -> tuple[tuple[float, ...], str] | None:
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
