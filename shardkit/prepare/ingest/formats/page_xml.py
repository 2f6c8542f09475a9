"""PAGE-XML: regions, lines and words of one page with their outlines, texts and reading order, any version.

    PcGts / Page / ReadingOrder / (Un)OrderedGroup... / RegionRef(Indexed)
                 / ...Region, TableCell / TextLine / Word / Glyph, each with Coords and TextEquiv / Unicode

The text of a line is its own TextEquiv, else that of its words; a region's own text counts where none of its lines says
anything. Baselines, borders and alternative images are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shardkit.prepare.ingest.formats.coordinates import numbers, page_size, share
from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.formats.reading_order import Block, Line, Word, assembled
from shardkit.prepare.ingest.formats.xml_safe import Element, parse_xml
from shardkit.prepare.ingest.reasons import Bad, plain

_CELL = "TableCell"
_CUSTOM_ORDER = re.compile(r"readingOrder\s*\{\s*index\s*:\s*(\d{1,9})\s*;?\s*\}")


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in a PAGE file.

    Raises:
        Bad: where it is none, or nothing is written on its page.
    """
    return label(parse_xml(data), changes)


def label(root: Element, changes: Counter[str]) -> Label:
    """The label in the root element of a PAGE file."""
    page = next(root.below("Page"), None)
    if root.name != "PcGts" or page is None:
        raise Bad(
            "bad_label", f"no PAGE file: its root is {plain(root.name)}" if page else "a PAGE file without a Page"
        )
    size = page_size(page.get("imageHeight"), page.get("imageWidth"))
    whole = Block(blocks=[_block(region, changes) for region in _regions(page)])
    _by_custom_index(whole, _regions(page))
    found = assembled(whole, _order(page, changes), changes)
    return replace(found, page_size=size, image=page.get("imageFilename"), fields=_fields(root, page, changes))


def _regions(element: Element) -> list[Element]:
    """The regions right inside an element; of a table also its cells, row by row, as Transkribus has them."""
    inside = [child for child in element.children() if child.name.endswith("Region") or child.name == _CELL]
    cells = iter(sorted(element.children(_CELL), key=lambda cell: (_index(cell.get("row")), _index(cell.get("col")))))
    return [next(cells) if child.name == _CELL else child for child in inside]


def _block(region: Element, changes: Counter[str]) -> Block:
    lines = [_line(line, changes) for line in region.children("TextLine")]
    text, confidence = _text(region, changes)
    elements = list(region.children("TextLine"))
    places = [_custom_index(line) for line in elements]
    if lines and None not in places and len(set(places)) == len(places):
        lines = [line for _, line in sorted(zip(places, lines, strict=True), key=lambda entry: entry[0] or 0)]
    block = Block(
        id=region.get("id"),
        text=text,
        polygon=_outline(region, changes),
        confidence=confidence,
        # Lines that say nothing give way to a region that does.
        lines=lines if any(line.text for line in lines) or not text.strip() else [],
        blocks=[_block(inner, changes) for inner in _regions(region)],
    )
    _by_custom_index(block, _regions(region))
    return block


def _line(element: Element, changes: Counter[str]) -> Line:
    words = [_word(word, changes) for word in element.children("Word")]
    text, confidence = _text(element, changes)
    of_words = " ".join(word.text for word in words if word.text)
    if text.strip() and of_words and text.split() != of_words.split():
        changes["line_differs_from_words"] += 1
    return Line(
        id=element.get("id"),
        text=text if text.strip() or not of_words else of_words,
        polygon=_outline(element, changes),
        confidence=confidence,
        words=words,
    )


def _word(element: Element, changes: Counter[str]) -> Word:
    text, confidence = _text(element, changes)
    if not text:
        text = "".join(_text(glyph, changes)[0] for glyph in element.children("Glyph"))
    return Word(id=element.get("id"), text=text, polygon=_outline(element, changes), confidence=confidence)


def _text(element: Element, changes: Counter[str]) -> tuple[str, float | None]:
    """The text and confidence of its TextEquiv of the lowest index; of several without index the first."""
    choices = list(element.children("TextEquiv"))
    if not choices:
        return "", None
    changes["alternatives_left_out"] += len(choices) - 1
    chosen = min(choices, key=lambda choice: _index(choice.get("index")))
    unicode = chosen.child("Unicode") or chosen.child("PlainText")
    return (unicode.text() if unicode is not None else ""), share(chosen.get("conf"), changes)


def _index(text: str) -> int:
    """An index; what has none comes after those that have one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 10**9


def _outline(element: Element, changes: Counter[str]) -> tuple[float, ...]:
    coords = element.child("Coords")
    if coords is None:
        return ()
    points = [f"{point.get('x')},{point.get('y')}" for point in coords.children("Point")]
    return numbers(points or [coords.get("points")], changes)


# --------------------------------------------------------------------------- order
def _order(page: Element, changes: Counter[str]) -> list[str] | None:
    """Ids of regions as the file orders them; None where it does not."""
    order = page.child("ReadingOrder")
    if order is None:
        changes["order_of_document"] += 1
        return None
    names = list(_group(order))
    changes["order_repeated"] += len(names) - len(set(names))
    return names


def _group(group: Element) -> Iterator[str]:
    """Region ids of a group. Indices order its members where it is ordered; what has none follows."""
    members = list(group.children())
    if group.name.startswith("Ordered"):
        members.sort(key=lambda member: _index(member.get("index")))
    for member in members:
        if member.get("regionRef"):
            yield member.get("regionRef")
        yield from _group(member)


def _custom_index(element: Element) -> int | None:
    """The place that Transkribus writes into `custom`."""
    found = _CUSTOM_ORDER.search(element.get("custom"))
    return int(found[1]) if found else None


def _by_custom_index(block: Block, regions: list[Element]) -> None:
    """Sort the blocks inside `block`, which stand for `regions`, where every region has such a place of its own."""
    places = [_custom_index(region) for region in regions]
    if places and None not in places and len(set(places)) == len(places):
        block.blocks = [inner for _, inner in sorted(zip(places, block.blocks, strict=True), key=lambda e: e[0] or 0)]


# --------------------------------------------------------------------------- what else it says
def _fields(root: Element, page: Element, changes: Counter[str]) -> dict[str, Any]:
    creator = next(root.below("Creator"), None)
    fields = {
        "document_id": root.get("pcGtsId"),
        "annotator": creator.text().strip() if creator is not None else "",
        "page_type": page.get("type"),
    }
    found: dict[str, Any] = {key: value for key, value in fields.items() if value}
    confidence = share(page.get("conf"), changes)
    return found if confidence is None else {**found, "confidence": confidence}
