"""hOCR: what OCR programs write as HTML, page by page; well-formed XML or not, in any encoding that it declares.

    ocr_page  title='image "a.png"; bbox 0 0 W H; ppageno 0'
      ocr_carea, ocr_par        regions
        ocr_line and its like   lines
          ocrx_word             words, x_wconf 0 to 100

Boxes count in pixels of the page image. White space is what HTML makes of it: any run of it is one space, and where a
file puts none at all between its words, they stand apart all the same. Baselines, angles and font sizes are not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from shardkit.prepare.ingest.formats.coordinates import numbers, share
from shardkit.prepare.ingest.formats.html_tree import parse_html
from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.formats.reading_order import Block, Line, Word, assembled, of_pages
from shardkit.prepare.ingest.formats.xml_safe import Element, decoded_xml, parse_text
from shardkit.prepare.ingest.reasons import Bad

_REGIONS = frozenset(
    [
        "ocr_carea",
        "ocr_par",
        "ocrx_block",
        "ocr_column",
        "ocr_table",
        "ocr_float",
        "ocr_photo",
        "ocr_image",
        "ocr_display",
    ]
)
_LINES = frozenset(["ocr_line", "ocrx_line", "ocr_header", "ocr_footer", "ocr_caption", "ocr_textfloat", "ocr_pageno"])
_WORDS = frozenset(["ocrx_word", "ocr_word"])
_NAME = re.compile(r"\s*([A-Za-z_]+)")
_QUOTE = re.compile(r"[\"']")
_SIGN = re.compile(r"[;\"']")


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in an hOCR file, with several pages where it has them.

    Raises:
        Bad: where it is none, or nothing is written on its pages.
    """
    text = decoded_xml(data, is_html=True)
    try:
        root = parse_text(text)
    except Bad as bad:
        if bad.reason != "invalid_xml":
            raise
        root = parse_html(text)
        changes["html_repaired"] += 1
    return label(root, changes)


def label(root: Element, changes: Counter[str]) -> Label:
    """The label in the root element of an hOCR document."""
    pages = list(_pages(root))
    if not pages:
        raise Bad("bad_label", "an HTML document without an ocr_page")
    return of_pages(pages, partial(_page, _about(root)), changes, lambda page: image_of(_properties(page)))


def _pages(element: Element) -> Iterator[Element]:
    """The outermost pages."""
    if "ocr_page" in _classes(element):
        yield element
        return
    for child in element.children():
        yield from _pages(child)


def _page(about: dict[str, Any], page: Element, changes: Counter[str]) -> Label:
    stated = _properties(page)
    corners = numbers([stated["bbox"]], changes) if "bbox" in stated else ()
    is_whole = len(corners) == 4 and corners[:2] == (0, 0) and min(corners[2:]) > 0
    whole = Block()
    _collect(page, whole, changes, apart=not any(map(_has_space, filter(_is_line, page.below()))))
    found = assembled(whole, None, changes)
    return replace(
        found,
        page_size=(corners[3], corners[2]) if is_whole else None,
        image=image_of(stated),
        fields={**about, **_fields(page, stated)},
    )


# --------------------------------------------------------------------------- regions, lines, words
def _collect(element: Element, into: Block, changes: Counter[str], *, apart: bool) -> None:
    """Put the lines and regions below `element` into a block; words that stand in no line make one together."""
    loose: list[Element] = []
    for child in element.children():
        classes = _classes(child)
        if classes & _WORDS:
            loose.append(child)
            continue
        if _is_line(child):
            into.lines.append(_line(child, changes, apart=apart))
        elif classes & (_REGIONS | _LINES):
            inner = Block(id=child.get("id"), polygon=_box(child, changes), lines_before=len(into.lines))
            into.blocks.append(inner)
            _collect(child, inner, changes, apart=apart)
        else:
            _collect(child, into, changes, apart=apart)
    if loose:
        words = [_word(word, changes) for word in loose]
        into.lines.append(Line(text=" ".join(word.text for word in words), words=words))
    elif into.blocks or into.lines or not _classes(element) & _REGIONS:
        return
    else:
        into.text = _collapsed(element.text())


def _is_line(element: Element) -> bool:
    """Whether an element is one line. Headers and footers of some programs hold lines: they are regions then."""
    return bool(_classes(element) & _LINES) and len(list(islice(_all(element, _LINES), 3))) < 3


def _line(element: Element, changes: Counter[str], *, apart: bool) -> Line:
    words = [_word(word, changes) for word in _all(element, _WORDS)]
    text = " ".join(word.text for word in words if word.text) if words and apart else _collapsed(element.text())
    return Line(id=element.get("id"), text=text, polygon=_box(element, changes), words=words)


def _word(element: Element, changes: Counter[str]) -> Word:
    return Word(
        id=element.get("id"),
        text=_collapsed(element.text()),
        polygon=_box(element, changes),
        confidence=share(_properties(element).get("x_wconf", ""), changes, whole=100.0),
    )


def _has_space(line: Element) -> bool:
    """Whether white space stands between two words of a line, outside them."""
    words = list(_all(line, _WORDS))
    if len(words) < 2:
        return False
    inside = sum(len(word.text()) - len("".join(word.text().split())) for word in words)
    whole = line.text().strip()
    return len(whole) - len("".join(whole.split())) > inside


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _box(element: Element, changes: Counter[str]) -> tuple[float, ...]:
    stated = _properties(element).get("bbox")
    if stated is None:
        return ()
    corners = numbers([stated], changes)
    return corners if len(corners) == 4 else ()


# --------------------------------------------------------------------------- classes and properties
def _classes(element: Element) -> frozenset[str]:
    return frozenset(element.attributes.get("class", "").split())


def _all(element: Element, classes: frozenset[str]) -> Iterator[Element]:
    return (inner for inner in element.below() if _classes(inner) & classes)


def _properties(element: Element) -> dict[str, str]:
    return properties(element.attributes.get("title", ""))


def properties(title: str) -> dict[str, str]:
    """The properties in a title: name -> value, trimmed, the first of each name."""
    found: dict[str, str] = {}
    for part in _parts(title) if _QUOTE.search(title) else title.split(";"):
        name = _NAME.match(part)
        if name is not None:
            found.setdefault(name[1], part[name.end() :].strip())
    return found


def _parts(title: str) -> Iterator[str]:
    """What semicolons part, but for those in quotation marks.

    A mark opens a quotation where its like closes it before a space, a semicolon or the end; in it's.png it is a letter.
    """
    start = place = 0
    while (sign := _SIGN.search(title, place)) is not None:
        place = sign.end()
        if sign[0] == ";":
            yield title[start : sign.start()]
            start = place
        elif (end := title.find(sign[0], place) + 1) and (title[end : end + 1] in ("", ";") or title[end].isspace()):
            place = end
    yield title[start:]


def image_of(stated: Mapping[str, str]) -> str:
    """What a page calls its image; OCRopus calls that its file."""
    return (stated.get("image") or stated.get("file", "")).strip("\"'")


def _about(root: Element) -> dict[str, Any]:
    """What the document says of itself."""
    said = {meta.get("name").lower(): meta.get("content") for meta in root.below("meta") if meta.get("name")}
    system, _, version = said.get("ocr-system", "").partition(" ")
    fields = {
        "document_id": said.get("dc.identifier", ""),
        "annotator": f"{system}@{version.strip()}" if version.strip() else system,
        "language": root.get("lang"),
    }
    return {key: value for key, value in fields.items() if value}


def _fields(page: Element, stated: dict[str, str]) -> dict[str, Any]:
    number = stated.get("ppageno", "")
    fields = {
        # hOCR counts pages from 0.
        "page": int(number) + 1 if number.isascii() and number.isdigit() and len(number) < 10 else "",
        "printed_page": stated.get("lpageno", "").strip("\"'"),
        "language": page.get("lang"),
    }
    return {key: value for key, value in fields.items() if value != ""}
