"""ALTO 2, 3 and 4: blocks, lines and words of pages, in pixels, tenths of a millimetre or 1/1200 inches.

    alto / Description / MeasurementUnit, sourceImageInformation / fileName
         / ReadingOrder / (Un)OrderedGroup... / ElementRef                          (since 4.3; before, IDNEXT of blocks)
         / Layout / Page / PrintSpace / TextBlock / TextLine / String, SP, HYP

Text is kept as it is printed: a word that a line end divides stays two parts with its hyphen. Spaces stand where SP
does; in a file without any SP they stand between words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from shardkit.prepare.ingest.formats.coordinates import box, numbers, page_size, share
from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.formats.reading_order import Block, Line, Word, assembled, of_pages
from shardkit.prepare.ingest.formats.xml_safe import Element, parse_xml
from shardkit.prepare.ingest.reasons import Bad, plain

_BLOCKS = ("TextBlock", "ComposedBlock", "Illustration", "GraphicalElement")
_UNITS = ("pixel", "mm10", "inch1200")


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in an ALTO file, with several pages where it has them.

    Raises:
        Bad: where it is none, or nothing is written on its pages.
    """
    return label(parse_xml(data), changes)


def label(root: Element, changes: Counter[str]) -> Label:
    """The label in the root element of an ALTO file."""
    layout = root.child("Layout")
    pages = list(layout.children("Page")) if layout is not None else []
    if root.name != "alto" or not pages:
        raise Bad("bad_label", f"not ALTO: the root is {plain(root.name)}" if pages else "an ALTO file without a Page")
    unit = _said(root, "MeasurementUnit").lower() or "pixel"
    if unit not in _UNITS:
        raise Bad("bad_label", f"the unit is {plain(unit)}, not one of {', '.join(_UNITS)}")
    description = root.child("Description")
    file = _File(
        unit=unit,
        has_spaces=next(layout.below("SP"), None) is not None if layout is not None else False,
        image="" if description is None else _said(description, "fileName"),
        fields={} if description is None else _about(description),
    )
    return of_pages(list(zip(pages, _orders(root, pages), strict=True)), partial(_page, file), changes)


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """What holds for all pages of a file."""

    unit: str
    has_spaces: bool
    image: str
    fields: Mapping[str, Any]


def _page(file: _File, page_and_order: tuple[Element, list[str] | None], changes: Counter[str]) -> Label:
    page, order = page_and_order
    size = page_size(page.get("HEIGHT"), page.get("WIDTH"))
    if size is None and file.unit != "pixel":
        raise Bad("bad_label", f"coordinates are in {file.unit} and the page has no size to scale them by")
    whole = Block()
    _collect(page, whole, changes, has_spaces=file.has_spaces)
    if order is None:
        changes["order_of_document"] += 1
    else:
        changes["order_repeated"] += len(order) - len(set(order))
    found = assembled(whole, order, changes)
    return replace(found, page_size=size, image=file.image, fields={**file.fields, **_fields(page, changes)})


# --------------------------------------------------------------------------- blocks, lines, words
def _collect(element: Element, into: Block, changes: Counter[str], *, has_spaces: bool) -> None:
    """Put the lines and blocks below `element` into a block; margins and print space are looked through."""
    for child in element.children():
        if child.name == "TextLine":
            into.lines.append(_line(child, changes, has_spaces=has_spaces))
        elif child.name in _BLOCKS:
            inner = Block(id=child.get("ID"), polygon=_outline(child, changes))
            into.blocks.append(inner)
            _collect(child, inner, changes, has_spaces=has_spaces)
        else:
            _collect(child, into, changes, has_spaces=has_spaces)


def _line(element: Element, changes: Counter[str], *, has_spaces: bool) -> Line:
    text = ""
    words: list[Word] = []
    for child in element.children():
        if child.name == "SP":
            text += " "
        elif child.name == "HYP" and not text.endswith(child.get("CONTENT") or "-"):
            text += child.get("CONTENT")
        elif child.name == "String":
            content = child.attributes.get("CONTENT", "")
            changes["alternatives_left_out"] += sum(1 for _ in child.children("ALTERNATIVE"))
            if words and not has_spaces:
                text += " "
            text += content
            words.append(
                Word(
                    id=child.get("ID"),
                    text=content,
                    polygon=_outline(child, changes),
                    confidence=share(child.get("WC"), changes),
                )
            )
    return Line(id=element.get("ID"), text=text.strip(), polygon=_outline(element, changes), words=words)


def _outline(element: Element, changes: Counter[str]) -> tuple[float, ...]:
    shape = element.child("Shape")
    polygon = shape.child("Polygon") if shape is not None else None
    if polygon is not None and (points := numbers([polygon.get("POINTS")], changes)):
        return points
    return box(element.get("HPOS"), element.get("VPOS"), element.get("WIDTH"), element.get("HEIGHT"), changes)


# --------------------------------------------------------------------------- order, and what else it says
def _orders(root: Element, pages: Sequence[Element]) -> list[list[str] | None]:
    """For each page the ids of blocks, lines and words in the order of nested groups; None where the file has none."""
    order = root.child("ReadingOrder")
    if order is None:
        return [_chained(page) for page in pages]
    names = [reference.get("REF") for reference in order.below("ElementRef")]
    if len(pages) == 1:
        return [names]
    page_of = {element.get("ID"): number for number, page in enumerate(pages) for element in page.below()}
    parts: list[list[str]] = [[] for _ in pages]
    for name in names:
        if name in page_of:
            parts[page_of[name]].append(name)
    return [*parts]


def _chained(page: Element) -> list[str] | None:
    """The ids of blocks as IDNEXT links them, chain after chain; None where none is linked."""
    following = {block.get("ID"): block.get("IDNEXT") for block in page.below(*_BLOCKS) if block.get("ID")}
    if not any(following.values()):
        return None
    linked = set(following.values())
    names: dict[str, None] = {}
    for name in [name for name in following if name not in linked]:
        while name in following and name not in names:
            names[name] = None
            name = following[name]
    return [*names]


def _said(element: Element, name: str) -> str:
    found = next(element.below(name), None)
    return "" if found is None else found.text().strip()


def _about(description: Element) -> dict[str, Any]:
    # The last step is the one that wrote the file.
    software = list(description.below("processingSoftware"))
    tool = [_said(software[-1], name) for name in ("softwareName", "softwareVersion")] if software else []
    fields = {
        "document_id": _said(description, "documentIdentifier"),
        "annotator": "@".join(part for part in tool if part),
    }
    return {key: value for key, value in fields.items() if value}


def _fields(page: Element, changes: Counter[str]) -> dict[str, Any]:
    number = page.get("PHYSICAL_IMG_NR")
    fields = {
        "page": int(number) if number.isascii() and number.isdigit() and len(number) < 10 else number,
        "printed_page": page.get("PRINTED_IMG_NR"),
        "confidence": share(page.get("PC"), changes),
    }
    return {key: value for key, value in fields.items() if value not in ("", None)}
