"""ALTO 2, 3 and 4: blocks, lines and words of pages, in pixels, tenths of a millimetre or 1/1200 inches.

    alto / Description / MeasurementUnit, sourceImageInformation / fileName
         / ReadingOrder / (Un)OrderedGroup... / ElementRef                          (since 4.3)
         / Layout / Page / PrintSpace / TextBlock / TextLine / String, SP, HYP

Text is kept as it is printed: a word that a line end divides stays two parts with its hyphen. Spaces stand where SP
does; in a file without any SP they stand between words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
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
    pages = [page for layout in root.below("Layout") for page in layout.children("Page")]
    if root.name != "alto" or not pages:
        raise Bad(
            "bad_label", f"no ALTO file: its root is {plain(root.name)}" if pages else "an ALTO file without a Page"
        )
    unit = _said(root, "MeasurementUnit").lower() or "pixel"
    if unit not in _UNITS:
        raise Bad("bad_label", f"the unit is {plain(unit)}, not one of {', '.join(_UNITS)}")
    return of_pages(pages, partial(_page, root, unit, _order(root)), changes)


def _page(root: Element, unit: str, order: list[str] | None, page: Element, changes: Counter[str]) -> Label:
    size = page_size(page.get("HEIGHT"), page.get("WIDTH"))
    if size is None and unit != "pixel":
        raise Bad("bad_label", f"coordinates are in {unit} and the page has no size to scale them by")
    whole = Block()
    _collect(page, whole, changes, has_spaces=next(root.below("SP"), None) is not None)
    if order is None:
        changes["layout:order_of_document"] += 1
    else:
        changes["layout:order_repeated"] += len(order) - len(set(order))
    found = assembled(whole, order, changes)
    return replace(
        found,
        page_size=size,
        image=_said(root.child("Description") or root, "fileName"),
        fields=_fields(root, page, changes),
    )


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
            changes["layout:alternatives"] += sum(1 for _ in child.children("ALTERNATIVE"))
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
def _order(root: Element) -> list[str] | None:
    """Ids of blocks, lines and words in the order of nested groups; None where the file has none."""
    order = root.child("ReadingOrder")
    return None if order is None else [reference.get("REF") for reference in order.below("ElementRef")]


def _said(element: Element, name: str) -> str:
    found = next(element.below(name), None)
    return "" if found is None else found.text().strip()


def _fields(root: Element, page: Element, changes: Counter[str]) -> dict[str, Any]:
    description = root.child("Description") or root
    # The last step is the one that wrote the file.
    software = list(description.below("processingSoftware"))
    tool = "@".join(
        said for name in ("softwareName", "softwareVersion") if software and (said := _said(software[-1], name))
    )
    number = page.get("PHYSICAL_IMG_NR")
    fields = {
        "document_id": _said(description, "documentIdentifier"),
        "page": int(number) if number.isascii() and number.isdigit() and len(number) < 10 else number,
        "printed_page": page.get("PRINTED_IMG_NR"),
        "annotator": tool,
        "confidence": share(page.get("PC"), changes),
    }
    return {key: value for key, value in fields.items() if value not in ("", None)}
