"""IIT-CDIP: a TIFF of all pages of a document, and its text as OCR gave it.

    ID.tif with ID.txt     pages parted by form feeds, or each ended by a line pgNbr=N
    ID.tif with ID.xml     a <record> with the text in <ot> and what is known of the document in other elements

Fields are metadata; every page is an example, and the document is the group. Text of OCR without its own page marks
belongs to a document of one page, or the document is excluded.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping

from shardkit.prepare.ingest.formats.label import Label, Read
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.formats.xml_safe import Element, parse_xml
from shardkit.prepare.ingest.reasons import Bad

_PAGE_END = re.compile(r"^[ \t]*pgNbr=\d+[ \t]*\n?", re.MULTILINE)
_TEXTS = ("ot", "ocr_text", "LTDLWOCR")
"""Elements that hold the text, in order."""
_SHOWN = re.compile(rf"<(?:{'|'.join(_TEXTS)})(?:\s[^<>]*)?/?>")
_IDS = ("docid", "tid")
"""Elements that name the document."""
_ESCAPED = re.compile(r"&(?:amp|lt|gt|quot|apos|#\d+);")


def read_text(data: bytes, changes: Counter[str]) -> Label:
    """The label in the text of a document.

    Raises:
        Bad: where it is no UTF-8.
    """
    return paged(decoded(data, changes), changes)


def read_record(data: bytes, changes: Counter[str]) -> Label:
    """The label in the record of a document.

    Raises:
        Bad: where it is none.
    """
    root = parse_xml(data)
    if not is_record(root):
        raise Bad("bad_label", f"the XML <{root.name}> has no element {' or '.join(_TEXTS)} with the text")
    return record(root, changes)


READERS: dict[str, Read] = {".txt": read_text, ".xml": read_record}


def is_record(root: Element) -> bool:
    """Whether an XML file is the record of a document."""
    return _text(root) is not None


def shows_record(text: str) -> bool:
    """`is_record`, before the XML is parsed."""
    return _SHOWN.search(text) is not None


def record(root: Element, changes: Counter[str]) -> Label:
    """The pages and fields of a record.

    Raises:
        Bad: where the file holds the records of many documents.
    """
    holder = _text(root)
    assert holder is not None, "is_record says so"
    num_records = sum(1 for _ in root.below(holder.name))
    if num_records > 1:
        raise Bad("bad_label", f"the XML holds {num_records} records; a document has one of its own")
    text = holder.text()
    if _ESCAPED.search(text):
        changes["text_unescaped"] += 1  # these records escape their text twice
        text = html.unescape(text)
    said: dict[str, dict[str, None]] = {}
    for element in root.below():
        value = element.text().strip()
        if element is not holder and value and next(element.children(), None) is None:
            said.setdefault(element.name, {})[value] = None
    fields = {name: "; ".join(values) for name, values in said.items()}
    return _paged(text.strip("\n"), fields, changes)


def has_page_marks(text: str) -> bool:
    """Whether a text is that of a document by its marks."""
    return _PAGE_END.search(text) is not None


def paged(text: str, changes: Counter[str]) -> Label:
    """The label of a text with or without page marks."""
    return _paged(text, {}, changes)


def _text(root: Element) -> Element | None:
    return next((element for name in _TEXTS for element in root.below(name)), None)


def _paged(text: str, fields: dict[str, str], changes: Counter[str]) -> Label:
    """The label of all pages, by their marks."""
    named = next((fields[name] for name in _IDS if name in fields), None)

    def document(stem: str) -> Mapping[str, str | int]:
        """What the record calls its document, else the name of its file."""
        return {"document_id": named or stem.rpartition("/")[2]}

    if _PAGE_END.search(text):
        parts = _PAGE_END.split(text)
        if parts[-1].strip():
            raise Bad("bad_label", "text follows the last page mark")
        changes["page_marks"] += len(parts) - 1
        pages = [part.strip("\n") for part in parts[:-1]]
        text = "\n".join(pages)
        parts_of_it = tuple(Label(text=page, fields=fields, document=document) for page in pages)
        return Label(text=text, fields=fields, document=document, pages=parts_of_it)
    return Label(text=text, fields=fields, document=document)
