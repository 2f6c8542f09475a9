"""Layout files that end in .xml: which of the dialects one is, by the local name of its root."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shardkit.prepare.ingest.formats import alto, hocr, page_xml
from shardkit.prepare.ingest.formats.label import Label, Read
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.formats.xml_safe import Element, parse_xml
from shardkit.prepare.ingest.reasons import Bad, plain

DIALECTS: dict[str, Callable[[Element, Counter[str]], Label]] = {
    "alto": alto.label,
    "PcGts": page_xml.label,
    "html": hocr.label,
}
"""Root element -> how it is read."""


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in an XML file of any dialect.

    Raises:
        Bad: where it is none of them, or cannot be used.
    """
    return label(parse_xml(data), changes)


def label(root: Element, changes: Counter[str]) -> Label:
    """The label that the root of an XML file holds.

    Raises:
        Bad: where it is of no dialect, or cannot be used.
    """
    if root.name not in DIALECTS:
        raise Bad("bad_label", f"the root of the XML is {plain(root.name)}, not one of {', '.join(DIALECTS)}")
    return DIALECTS[root.name](root, changes)


def _text(data: bytes, changes: Counter[str]) -> Label:
    return Label(text=decoded(data, changes))


_WITNESSES: dict[str, Read] = {".gt.txt": _text, ".txt": _text}
ALTO: dict[str, Read] = {".alto.xml": alto.read, ".xml": alto.read, **_WITNESSES}
PAGE: dict[str, Read] = {".page.xml": page_xml.read, ".xml": page_xml.read, **_WITNESSES}
HOCR: dict[str, Read] = {".hocr": hocr.read, ".html": hocr.read, ".htm": hocr.read, ".xml": hocr.read, **_WITNESSES}
"""Suffix -> reader, where one dialect alone is meant. A text of the same stem bears witness."""
