"""What a layout file says at a glance, without being parsed: its dialect, and what it calls its images."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from shardkit.prepare.ingest.containers.claims import Head, Peek
from shardkit.prepare.ingest.formats import hocr, iit_cdip
from shardkit.prepare.ingest.formats.html_tree import attributes
from shardkit.prepare.ingest.formats.layout_xml import DIALECTS
from shardkit.prepare.ingest.formats.xml_safe import decoded_xml

_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)")
_HEAD = 1 << 16
"""Characters in which PAGE and ALTO name their image."""
_PAGE = re.compile(r"\simageFilename\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_ALTO = re.compile(r"<(?:[\w.-]+:)?fileName(?:\s[^<>]*)?>([^<]*)<")
_HOCR_PAGE = re.compile(r"<[^<>]*\bocr_page\b[^<>]*>")


def of_xml(data: bytes) -> Head:
    """The head of an .xml file.

    Raises:
        Bad: where its encoding cannot be read.
    """
    text = decoded_xml(data)
    root = _ROOT.search(text, _after_comments(text), _HEAD)
    if root is None or root[1] not in DIALECTS:
        is_record = root is not None and iit_cdip.shows_record(text)
        return Head(is_other=root is not None and not is_record, of_folder=is_record)
    if root[1] == "html":
        return _of_hocr(text)
    return Head(images=_names((_PAGE if root[1] == "PcGts" else _ALTO).finditer(text[:_HEAD])))


def _after_comments(text: str) -> int:
    """Where the last comment before the root element ends."""
    place = 0
    while (mark := text.find("<", place)) >= 0 and text.startswith(("<?", "<!"), mark):
        end = "-->" if text.startswith("<!--", mark) else ">"
        found = text.find(end, mark)
        if found < 0:
            break
        place = found + len(end)
    return place


def of_html(data: bytes) -> Head:
    """The head of an .hocr or .html file.

    Raises:
        Bad: where its encoding cannot be read.
    """
    return _of_hocr(decoded_xml(data, is_html=True))


def _of_hocr(text: str) -> Head:
    pages = _HOCR_PAGE.findall(text)
    stated = (hocr.properties(attributes(page).get("title", "")) for page in pages)
    return Head(images=tuple(filter(None, map(hocr.image_of, stated))), is_other=not pages)


def _names(matches: Iterable[re.Match[str]]) -> tuple[str, ...]:
    found = (html.unescape(next((group for group in match.groups() if group), "")).strip() for match in matches)
    return tuple(name for name in found if name)


PEEKS: dict[str, Peek] = {
    ".alto.xml": of_xml, ".page.xml": of_xml, ".xml": of_xml, ".hocr": of_html, ".html": of_html, ".htm": of_html,
}  # fmt: skip
"""Suffix of a layout file -> how it is looked into."""
