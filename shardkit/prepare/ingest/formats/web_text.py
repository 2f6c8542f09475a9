"""HTML to what a reader sees: paragraphs of text and the pictures between them, in order.

What is no text of the page (scripts, styles, forms, frames) is dropped and counted by the name of its element. Character
references are decoded. White space is collapsed as a browser does it, and kept in `pre`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from shardkit.errors import ConfigError
from shardkit.prepare.ingest.formats.label import number
from shardkit.prepare.ingest.reasons import Bad

if TYPE_CHECKING:
    from types import ModuleType

_DROPPED = frozenset(
    [
        "script",
        "style",
        "template",
        "noscript",
        "noframes",
        "noembed",
        "iframe",
        "frame",
        "object",
        "embed",
        "applet",
        "svg",
        "canvas",
        "audio",
        "video",
        "select",
        "textarea",
        "math",
    ]
)
_EMPTY = frozenset(["embed", "frame"])
"""Of these, those that hold nothing: what follows them is of the page, though the parser hands it out as inside them."""
_BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "menu",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "summary",
        "table",
        "ul",
    ]
)
_LINES = frozenset(["br", "tr"])
_CELLS = frozenset(["td", "th"])
_LISTS = frozenset(["menu", "ol", "ul"])
_SPACE = re.compile(r"[ \t\r\n\f]+")
_PICTURES = ("img", "amp-img")
_LATE = ("data-src", "data-original", "data-lazy-src")
_GAPS = ("", " ", "\t", "\n", "\n\n")
"""White space between words, from the weakest to the strongest."""
_MAX_ELEMENTS = 2_000_000
_MAX_INDENT = 100
"""Of lists inside each other; deeper ones would cost more than their text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture of a page, as the page names it."""

    src: str
    alt: str = ""
    title: str = ""
    others: tuple[str, ...] = ()
    """Where it may lie if not at `src`: addresses of its other sizes and forms."""


@dataclass(kw_only=True, slots=True)
class Page:
    parts: list[str | Picture] = field(default_factory=list)
    """Texts and pictures in order; no two texts stand together, none is blank."""
    title: str = ""
    language: str = ""
    url: str = ""
    """What the page says its own address is."""
    base: str = ""
    """What its relative addresses begin at, where it says so."""
    changes: Counter[str] = field(default_factory=Counter)


def read_html(text: str) -> Page:
    """The page that `text` is. Takes time in proportion to its length, and opens nothing.

    Raises:
        Bad: for more elements than a page has.
        ConfigError: where lxml is not installed.
    """
    etree = _lxml()
    target = _Target()
    parser = etree.HTMLParser(target=target, no_network=True, remove_pis=True, huge_tree=True)
    if not text.strip():
        return Page()
    for start in range(0, len(text), 1 << 16):
        parser.feed(text[start : start + (1 << 16)])
        if target.num_elements > _MAX_ELEMENTS:
            raise Bad("too_deep", f"the page has more than {_MAX_ELEMENTS} elements")
    page: Page = parser.close()
    return page


def _lxml() -> ModuleType:
    try:
        from lxml import etree
    except ImportError:
        raise ConfigError("reading HTML needs lxml", hint="pip install 'shardkit[web]'") from None
    module: ModuleType = etree
    return module


class _Target:
    """Takes the parser's events; see `lxml.etree.HTMLParser`."""

    def __init__(self) -> None:
        self.num_elements = 0
        self._page = Page()
        self._text: list[str] = []
        """Pieces of the text that is being gathered."""
        self._gap = ""
        """White space that is owed before the next word: one of _GAPS."""
        self._mark = ""
        """Mark of a list's entry that is owed before the next word."""
        self._dropping: list[str] = []
        """Open elements of which nothing is kept, the outermost first."""
        self._pre = 0
        self._lists: list[int | None] = []
        """Open lists: the number of the next entry, None in lists without numbers."""
        self._title: list[str] | None = None
        self._sources: list[str] = []
        """Sets of addresses of the `picture` that is open."""

    # ------------------------------------------------------------------ events
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.num_elements += 1
        if self._dropping:
            if tag == self._dropping[-1]:
                self._dropping.append(tag)
            elif tag == "img" and self._dropping == ["noscript"]:
                self._without_scripts(attributes)
            return
        hidden = "hidden" in attributes and tag in _BLOCKS | {"span"}
        if tag in _DROPPED or hidden:
            self._page.changes[f"element_dropped:{'hidden' if hidden else tag}"] += 1
            if tag not in _EMPTY:
                self._dropping.append(tag)
            return
        if tag == "title" and not self._page.title:
            self._title = []
        elif tag in _PICTURES:
            self._picture(attributes)
        elif tag in ("picture", "source"):
            self._source(tag, attributes)
        elif tag in ("html", "meta", "link", "base"):
            self._head(tag, attributes)
        self._open(tag, attributes)

    def end(self, tag: str) -> None:
        if self._dropping:
            if tag == self._dropping[-1]:
                self._dropping.pop()
            return
        if tag == "title" and self._title is not None:
            self._page.title = _SPACE.sub(" ", "".join(self._title)).strip()
            self._title = None
        elif tag == "pre" and self._pre:
            self._pre -= 1
            if self._text:
                self._text[-1] = self._text[-1].rstrip("\n")
        elif tag in _LISTS and self._lists:
            self._lists.pop()
        elif tag == "picture":
            self._sources = []
        self._border(tag)

    def data(self, text: str) -> None:
        if self._dropping:
            return
        if self._title is not None:
            self._title.append(text)
        elif self._pre:
            self._word(text.replace("\r\n", "\n"))
        else:
            words = _SPACE.sub(" ", text)
            if words.startswith(" "):
                self._break(" ")
            if words.strip(" "):
                self._word(words.strip(" "))
                if words.endswith(" "):
                    self._break(" ")

    def comment(self, _text: str) -> None:
        self._page.changes["comment_dropped"] += 1

    def close(self) -> Page:
        self._flush()
        return self._page

    # ------------------------------------------------------------------ parts of events
    def _open(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._border(tag)
        if tag in _LINES:
            self._break("\n")
        elif tag in _CELLS:
            self._break("\t")
        elif tag == "pre":
            self._pre += 1
        elif tag in _LISTS:
            self._lists.append(_first(attributes) if tag == "ol" else None)
        elif tag == "li":
            self._entry()

    def _entry(self) -> None:
        """The mark of a list's entry, indented by the lists around it."""
        number = self._lists[-1] if self._lists else None
        self._mark = "  " * min(len(self._lists) - 1, _MAX_INDENT) + ("- " if number is None else f"{number}. ")
        if number is not None:
            self._lists[-1] = number + 1

    def _border(self, tag: str) -> None:
        """The white space that `tag` puts where it opens and where it closes."""
        if tag in _BLOCKS:
            self._break("\n" if tag == "li" or (tag in _LISTS and self._lists) else "\n\n")

    def _head(self, tag: str, attributes: Mapping[str, str]) -> None:
        page = self._page
        if tag == "html":
            page.language = page.language or attributes.get("lang", "").strip()
        elif tag == "base":
            page.base = page.base or attributes.get("href", "").strip()
        elif tag == "link" and attributes.get("rel", "").strip().lower() == "canonical":
            page.url = attributes.get("href", "").strip() or page.url
        elif tag == "meta" and attributes.get("property", "").strip().lower() == "og:url":
            page.url = page.url or attributes.get("content", "").strip()

    def _source(self, tag: str, attributes: Mapping[str, str]) -> None:
        """`picture` opens, or a `source` in it gives another form of what it shows."""
        if tag == "picture":
            self._sources = []
        else:
            self._sources += [attributes[name] for name in ("srcset", "data-srcset") if attributes.get(name)]

    def _picture(self, attributes: Mapping[str, str]) -> None:
        picture = _shown(attributes, self._sources)
        if picture is None:
            self._page.changes["picture_without_address"] += 1
            return
        self._flush()
        self._page.parts.append(picture)

    def _without_scripts(self, attributes: Mapping[str, str]) -> None:
        """A picture for readers without scripts: that of the `img` before it, where that one is but an inline stand-in."""
        before = self._page.parts[-1] if self._page.parts and not self._text else None
        picture = _shown(attributes, [])
        if isinstance(before, Picture) and before.src.startswith("data:") and picture is not None:
            self._page.parts[-1] = replace(picture, alt=before.alt or picture.alt, title=before.title or picture.title)

    # ------------------------------------------------------------------ text
    def _break(self, gap: str) -> None:
        """Owe white space; the strongest of what comes together counts."""
        self._gap = max(self._gap, gap, key=_GAPS.index)

    def _word(self, text: str) -> None:
        if self._text:
            self._text.append(self._gap)
        self._text.append(self._mark + text)
        self._gap = self._mark = ""

    def _flush(self) -> None:
        """End the text that is being gathered."""
        text = "".join(self._text).strip("\n")
        self._text, self._gap, self._mark = [], "", ""
        if text.strip():
            self._page.parts.append(text)


def _shown(attributes: Mapping[str, str], sources: Sequence[str]) -> Picture | None:
    """The picture of an `img`; None where it has no address.

    A page that loads its pictures when they are scrolled to shows what `data-src` says, and a stand-in until then.

    Args:
        sources: sets of addresses of the `picture` around it.
    """
    src = attributes.get("src", "").strip()
    late = next(filter(None, (attributes.get(name, "").strip() for name in _LATE)), "")
    sets = [attributes.get("srcset", ""), attributes.get("data-srcset", ""), *sources]
    others = [address for one in sets for address in _by_size(one)]
    addresses = [late, src, *others] if "lazy" in attributes.get("class", "").lower() else [src, late, *others]
    if src.startswith("data:") and late:
        addresses.remove(src)
    found = list(dict.fromkeys(filter(None, addresses)))
    if not found:
        return None
    alt, title = (attributes.get(name, "").strip() for name in ("alt", "title"))
    return Picture(src=found[0], alt=alt, title=title, others=tuple(found[1:]))


def _first(attributes: Mapping[str, Any]) -> int:
    start = str(attributes.get("start", "1")).strip()
    return int(start) if re.fullmatch(r"-?[0-9]{1,9}", start) else 1


def _by_size(srcset: str) -> list[str]:
    """The addresses of a `srcset`, the largest picture first, of equal ones the first that is named."""
    words = srcset.split()[::-1]
    found: list[tuple[float, str]] = []
    while words:
        address = words.pop()
        size = 1.0
        if not address.endswith(",") and words:
            stated, comma, rest = words.pop().partition(",")
            known = number(stated[:-1])
            size = 0.0 if known is None else known
            if comma and rest:
                words.append(rest)
        address = address.strip(",")
        if address:
            found.append((-size, address))
    return [address for _, address in sorted(found, key=itemgetter(0))]
