"""HTML that is no XML, as a tree: what tools write as hOCR without closing every element.

Not a browser's parser: it finds tags, texts and character references, closes what is left open, and takes time in
proportion to the length of the text, whatever the text is.
"""

from __future__ import annotations

import html
import re

from shardkit.prepare.ingest.formats.xml_safe import Builder, Element
from shardkit.prepare.ingest.reasons import Bad

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:_-]*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ATTRIBUTE = re.compile(r"([^\s=\"'<>/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>]+)))?")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_CLOSED_BY_ITS_LIKE = frozenset(["p", "li", "dt", "dd", "tr", "td", "th", "option"])
_NO_MARKUP = ("script", "style")


def parse_html(text: str) -> Element:
    """The root element, usually `html`; names in lower case. Documents that were joined to one file are one.

    Raises:
        Bad: where the text breaks off, has a document type with an internal subset, or goes beyond a limit.
    """
    builder = Builder()
    place, end = 0, len(text)
    while place < end:
        mark = text.find("<", place)
        if mark < 0:
            mark = end
        if mark > place:
            builder.text(html.unescape(text[place:mark]))
        place = mark
        if place < end:
            place = _markup(text, place, builder)
    if "html" in builder.names and "</html" not in text[-4096:].lower():
        raise Bad("cut_off", "the document ends before its end tag")
    return builder.whole()


def _markup(text: str, place: int, builder: Builder) -> int:
    """Take what begins with the `<` at `place`; where it ends."""
    if text.startswith("<!--", place):
        return _after(text, "-->", place + 4)
    if text.startswith(("<!", "<?"), place):
        after = _after(text, ">", place)
        if "[" in text[place:after] and text[place : place + 9].lower() == "<!doctype":
            raise Bad("document_type", "the document type has an internal subset, which layout files have no use for")
        return after
    tag = _TAG.match(text, place)
    if tag is None:
        builder.text("<")
        return place + 1
    name = tag[2].lower()
    if tag[1]:
        _close(name, builder)
        return tag.end()
    if name in _CLOSED_BY_ITS_LIKE and builder.names[-1:] == [name]:
        builder.end()
    builder.start(name, attributes(tag[3]))
    if name in _VOID or tag[3].endswith("/"):
        builder.end()
    elif name in _NO_MARKUP:
        builder.end()
        found = re.compile(f"</{name}", re.IGNORECASE).search(text, tag.end())
        return _after(text, ">", found.start() if found else len(text))
    return tag.end()


def _after(text: str, mark: str, place: int) -> int:
    found = text.find(mark, place)
    return len(text) if found < 0 else found + len(mark)


def _close(name: str, builder: Builder) -> None:
    """End the innermost open element of this name with all that is open in it; an end without a start is nothing."""
    names = builder.names
    if name in names:
        for _ in range(names[::-1].index(name) + 1):
            builder.end()


def attributes(text: str) -> dict[str, str]:
    """The attributes in the text of a tag, by their names in lower case; the first of each name."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        found.setdefault(match[1].lower(), html.unescape(match[2] or match[3] or match[4] or ""))
    return found
