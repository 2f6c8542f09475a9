"""Lines that a site repeats, taken out of the text of a document.

    "News | Shop\\n\\nA day at sea.\\n\\nSubscribe!"   without the first and the last  ->  "A day at sea."

A line goes with the blank lines that would be left beside each other, a segment with its last line. What belongs to a
picture (layout, labels, reading order) stays as it is: only texts of documents are looked at, and none was read off one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shardkit.prepare.dedup.boilerplate import LEAST_CHARACTERS
from shardkit.records import Example, Relation, Segment, example_id
from shardkit.text.normalize import normalize


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line that went."""

    segment: int
    """Index of the segment that held it."""
    number: int
    """From 0, in the segment."""
    text: str
    """As it stood there, without its end."""
    form: str
    """Its compared form."""


def without(text: str, repeated: Callable[[str], bool]) -> tuple[str, list[tuple[int, str, str]]]:
    """A text without some of its lines.

    Args:
        repeated: whether a line of this compared form goes; not asked about those under LEAST_CHARACTERS.

    Returns:
        the rest; number, text and compared form of each line that went. Without any, the text is as it was.
    """
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    gone: list[tuple[int, str, str]] = []
    behind = False
    for number, line in enumerate(lines):
        form = normalize(line)
        if len(form) >= LEAST_CHARACTERS and repeated(form):
            gone.append((number, _bare(line), form))
            behind = True
        elif not (behind and not form and (not kept or not kept[-1].strip())):
            kept.append(line)
            behind = False
    if not gone:
        return text, []
    if behind:
        while kept and not kept[-1].strip():
            kept.pop()
        if kept:
            kept[-1] = _bare(kept[-1]) + lines[-1][len(_bare(lines[-1])) :]
    return "".join(kept), gone


def _bare(line: str) -> str:
    """A line without its end."""
    return next(iter(line.splitlines()), "")


def trimmed(example: Example, repeated: Callable[[str], bool]) -> tuple[Example, list[Line]]:
    """The example without lines, under its new id; segments that only had such lines are gone, pictures stay.

    Returns:
        the example, itself where nothing went, and the lines.
    """
    segments: list[Segment] = []
    lines: list[Line] = []
    places: dict[int, int] = {}
    for index, segment in enumerate(example.segments):
        rest, gone = without(segment.text or "", repeated)
        lines += [Line(segment=index, number=number, text=text, form=form) for number, text, form in gone]
        if gone and not rest.strip():
            continue
        places[index] = len(segments)
        segments.append(replace(segment, text=rest) if gone else segment)
    if not lines:
        return example, []
    relations = tuple(_placed(relation, places) for relation in example.relations if _stays(relation, places))
    changed = replace(example, segments=tuple(segments), relations=relations)
    return replace(changed, example_id=example_id(changed)), lines


def is_empty(example: Example) -> bool:
    """Whether neither an image nor a text is left."""
    return not example.images and not any((segment.text or "").strip() for segment in example.segments)


def _stays(relation: Relation, places: dict[int, int]) -> bool:
    """Without segments a relation is of all; one whose segments are gone must not become that."""
    return not relation.segments or any(index in places for index in relation.segments)


def _placed(relation: Relation, places: dict[int, int]) -> Relation:
    return replace(relation, segments=tuple(places[index] for index in relation.segments if index in places))
