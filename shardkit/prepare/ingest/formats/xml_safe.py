"""XML as layout files hold it, read so that a hostile file costs nothing: no entities, no fetching, bounded depth and size.

bytes -> encoding (byte order mark, declaration) -> text -> expat -> tree of local names
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from shardkit.prepare.ingest.formats.text_file import MARKS
from shardkit.prepare.ingest.reasons import Bad, plain

MAX_DEPTH = 100
MAX_ELEMENTS = 500_000
"""A dense page with a box a glyph has some 50,000; one file of a whole book of words some 300,000."""

_DECLARED = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_DECLARED_HTML = re.compile(rb"<meta[^>]*?charset\s*=\s*[\"']?\s*([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_ENCODINGS = re.compile(
    r"ascii|utf-8|utf-16(-[lb]e)?|iso8859-\d+|cp\d+|gb2312|gbk|gb18030|big5(hkscs)?|shift_jis|euc_jp|euc_kr|koi8-[ru]"
    r"|mac-roman|tis-620|hz|iso2022_jp"
)
"""Names as Python has them. It also knows encodings that are none of texts (punycode, unicode_escape)."""


@dataclass(kw_only=True, slots=True)
class Element:
    """An element by its local name; prefixes and namespaces are left out, attributes likewise."""

    name: str
    attributes: dict[str, str]
    content: list[str | Element] = field(default_factory=list)
    """Texts and elements, in order."""

    def get(self, name: str) -> str:
        """An attribute, trimmed; empty where it is absent."""
        return self.attributes.get(name, "").strip()

    def children(self, *names: str) -> Iterator[Element]:
        """Child elements, those of `names` where any are given."""
        return (part for part in self.content if isinstance(part, Element) and (not names or part.name in names))

    def child(self, name: str) -> Element | None:
        return next(self.children(name), None)

    def below(self, *names: str) -> Iterator[Element]:
        """The element itself and all below it that have one of `names`, in document order."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            if not names or element.name in names:
                yield element
            waiting += reversed([part for part in element.content if isinstance(part, Element)])

    def text(self) -> str:
        """All text in it, to the character."""
        return "".join(part if isinstance(part, str) else part.text() for part in self.content)


def parse_xml(data: bytes) -> Element:
    """The root element.

    Raises:
        Bad: where it is not well-formed XML in the encoding that it states, has a document type with an internal
            subset, or goes beyond a limit.
    """
    return parse_text(decoded_xml(data))


def decoded_xml(data: bytes, *, is_html: bool = False) -> str:
    """The text of an XML (or HTML) file in its encoding: byte order mark, then declaration, then UTF-8.

    Raises:
        Bad: where the encoding is not known, or the bytes are not of it.
    """
    name = "utf-8"
    mark = next((entry for entry in MARKS if data.startswith(entry[0])), None)
    if mark is not None:
        data, name = data[len(mark[0]) :], mark[1]
    elif data[:2] in (b"<\0", b"\0<"):
        name = "utf-16-le" if data[0] else "utf-16-be"
    else:
        declared = _DECLARED.match(data, 0, 200) or (_DECLARED_HTML.search(data, 0, 4096) if is_html else None)
        if declared is not None:
            name = _known(declared[1].decode("ascii"))
    try:
        return data.decode(name)
    except UnicodeDecodeError as error:
        reason = "invalid_utf8" if name == "utf-8" else "bad_encoding"
        raise Bad(reason, f"byte {error.start}, 0x{data[error.start]:02x}, is no {name.upper()}") from None


def _known(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except LookupError:
        found = ""
    if not _ENCODINGS.fullmatch(found):
        raise Bad("bad_encoding", f"the file says that its encoding is {plain(name)}, which is none of the known ones")
    # Such a file begins with plain bytes, or its declaration would not have been read.
    return "utf-8" if found.startswith("utf-16") else found


def parse_text(text: str) -> Element:
    """`parse_xml` for a text that is decoded already; an encoding that it declares does not count."""
    builder = Builder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _document_type
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = lambda _name: builder.end()
    parser.CharacterDataHandler = builder.text
    parser.SkippedEntityHandler = lambda name, is_parameter: None if is_parameter else builder.text(_character(name))
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise Bad("invalid_xml", f"{where}: {expat.ErrorString(error.code)}") from None
    except UnicodeEncodeError:
        raise Bad("invalid_xml", "a surrogate character, which is no text") from None
    return builder.root()


def _document_type(_name: str, _system: str | None, _public: str | None, has_internal_subset: bool) -> None:
    if has_internal_subset:
        raise Bad("document_type", "the document type has an internal subset, which layout files have no use for")


def _character(name: str) -> str:
    """The character of a named entity of HTML, which a bare document type leaves undefined."""
    found = html.unescape(f"&{name};")
    if found.startswith("&") and name != "amp":
        raise Bad("invalid_xml", f"the entity {plain(name)} is not defined")
    return found


class Builder:
    """Puts a tree together from starts, ends and texts, within the limits."""

    def __init__(self) -> None:
        self._top = Element(name="", attributes={})
        self._open = [self._top]
        self._count = 0

    @property
    def names(self) -> list[str]:
        """Names of the open elements, the root first."""
        return [element.name for element in self._open[1:]]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_ELEMENTS:
            raise Bad("too_many_elements", f"more than {MAX_ELEMENTS} elements")
        if len(self._open) > MAX_DEPTH:
            raise Bad("too_deep", f"elements nested deeper than {MAX_DEPTH}")
        if ":" in name or any(":" in key for key in attributes):
            name = name.rpartition(":")[2]
            attributes = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        element = Element(name=name, attributes=attributes)
        self._open[-1].content.append(element)
        self._open.append(element)

    def end(self) -> None:
        self._open.pop()

    def text(self, text: str) -> None:
        self._open[-1].content.append(text)

    def root(self) -> Element:
        """The one root element.

        Raises:
            Bad: where there is none.
        """
        root = next(self._top.children(), None)
        if root is None:
            raise Bad("invalid_xml", "there is no element")
        return root

    def whole(self) -> Element:
        """The root element; where there are several, one that holds them all.

        Raises:
            Bad: where there is none.
        """
        roots = list(self._top.children())
        if len(roots) < 2:
            return self.root()
        return Element(name="html", attributes=roots[0].attributes if roots[0].name == "html" else {}, content=[*roots])
