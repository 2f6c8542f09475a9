"""SynthText: gt.mat lists pictures with the words drawn on them.

    imnames  paths of pictures
    wordBB   2 x 4 x words: x and y of the corners of every word (2 x 4 for one word)
    txt      blocks of text, lines parted by line feeds and words by white space, in the order of wordBB

A line of a block is a line of the page text. An entry whose words and boxes differ in number is excluded, because no box
can be given its word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.label import Label, polygon
from shardkit.prepare.ingest.formats.label_list import draft
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import LayoutItem

CONTAINERS = ("mat",)


def drafts(record: Record, _config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one picture.

    Raises:
        Bad: with the reason.
    """
    value = record.value
    names = _texts(value["imnames"])
    if len(names) != 1 or not names[0].strip():
        raise Bad("no_image", "imnames has no path")
    blocks = [line.strip() for block in _texts(value["txt"]) for line in block.split("\n") if line.strip()]
    lines = [line.split() for line in blocks]
    boxes = _boxes(value["wordBB"])
    num_words = sum(map(len, lines))
    if num_words != len(boxes):
        raise Bad("bad_label", f"the entry has {num_words} words and {len(boxes)} boxes")
    items: list[LayoutItem] = []
    taken = iter(boxes)
    order = 0
    for place, words in enumerate(lines):
        parent = len(items)
        items.append(LayoutItem(level="line", text=" ".join(words), order=place))
        for word in words:
            items.append(LayoutItem(level="word", text=word, polygon=next(taken), parent=parent, order=order))
            order += 1
    text = "\n".join(" ".join(words) for words in lines)
    yield draft(record, names[0], Label(text=text, layout=tuple(items)), Counter(record.changes))


def _texts(value: Any) -> list[str]:
    """The texts in a cell; a block of characters pads its rows with spaces."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for inner in value for text in _texts(inner)]
    raise Bad("wrong_type", f"a text is of type {type(value).__name__}")


def _boxes(value: Any) -> list[tuple[float, ...]]:
    """Corners of every word, from x and y by corner and word."""
    whole = (
        isinstance(value, list) and len(value) == 2 and all(isinstance(axis, list) and len(axis) == 4 for axis in value)
    )
    if not whole:
        raise Bad("bad_label", "wordBB is not 2 x 4 x words")
    axes = [[corner if isinstance(corner, list) else [corner] for corner in axis] for axis in value]
    if len({len(corner) for axis in axes for corner in axis}) != 1:
        raise Bad("bad_label", "wordBB is not 2 x 4 x words")
    boxes = []
    for word in range(len(axes[0][0])):
        points = polygon([axes[axis][corner][word] for corner in range(4) for axis in (0, 1)])
        if points is None:
            raise Bad("bad_label", f"the box of word {word + 1} is no list of coordinates")
        boxes.append(points)
    return boxes
