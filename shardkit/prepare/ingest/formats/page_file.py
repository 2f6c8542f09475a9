"""A file that holds one page, and the draft of a page: what Markdown and HTML have in common."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from shardkit.prepare.ingest.draft import Draft, ImageRef
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.formats.web_images import image_of
from shardkit.prepare.ingest.formats.web_text import Page
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

_CHARSET = re.compile(
    rb"<(?:meta[^>]{0,200}?charset|\?xml[^>]{0,100}?encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE
)
_SUBSET = re.compile(r"\s*(?:<\?[^>]*>\s*|<!--.*?-->\s*)*<!doctype[^>\[]*\[", re.IGNORECASE | re.DOTALL)
_CODECS = {
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 l1 us-ascii ascii",
    "cp1253": "windows-1253 cp1253",
    "cp1254": "windows-1254 cp1254 iso-8859-9 latin5",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "cp866": "ibm866 cp866",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949",
    "euc_jp": "euc-jp x-euc-jp",
    "gb18030": "gb18030 gbk x-gbk gb2312 gb_2312-80 chinese",
    "iso2022_jp": "iso-2022-jp",
    "iso8859_2": "iso-8859-2 iso8859-2 latin2",
    "iso8859_3": "iso-8859-3",
    "iso8859_4": "iso-8859-4",
    "iso8859_5": "iso-8859-5",
    "iso8859_6": "iso-8859-6",
    "iso8859_7": "iso-8859-7",
    "iso8859_8": "iso-8859-8 iso-8859-8-i",
    "iso8859_10": "iso-8859-10",
    "iso8859_13": "iso-8859-13",
    "iso8859_14": "iso-8859-14",
    "iso8859_15": "iso-8859-15 iso8859-15",
    "iso8859_16": "iso-8859-16",
    "koi8_r": "koi8-r",
    "koi8_u": "koi8-u",
    "mac_cyrillic": "x-mac-cyrillic",
    "mac_roman": "macintosh x-mac-roman",
}
"""Codec -> what pages call the encodings for which browsers take it."""
_CHARSETS = {name: codec for codec, names in _CODECS.items() for name in names.split()}


def page_text(data: bytes, changes: Counter[str]) -> str:
    """The text of an HTML file: UTF-8, the encoding of its byte order mark, or the one that it declares; counted in `changes`.

    Raises:
        Bad: where it is neither, or has a document type with an internal subset.
    """
    text = _decoded(data, changes)
    if _SUBSET.match(text[:4096]):
        raise Bad("document_type", "the document type has an internal subset, which pages have no use for")
    return text


def _decoded(data: bytes, changes: Counter[str]) -> str:
    try:
        return decoded(data, changes)
    except Bad:
        declared = _CHARSET.search(data[:1024])
        name = declared.group(1).decode("ascii").lower() if declared else ""
        if name not in _CHARSETS:
            raise
    try:
        text = data.decode(_CHARSETS[name])
    except UnicodeDecodeError as error:
        raise Bad(
            "invalid_utf8", f"the page is neither UTF-8 nor the {name} it declares (byte {error.start})"
        ) from None
    changes[f"charset:{name}"] += 1
    return text


def page_draft(page: Page, record: Record, reader: Reader, metadata: dict[str, Any], changes: Counter[str]) -> Draft:
    """The draft of a page.

    Raises:
        Bad: where nothing is on it.
    """
    segments: list[Segment] = []
    images: list[ImageRef] = []
    named: list[dict[str, str]] = []
    for part in page.parts:
        if isinstance(part, str):
            segments.append(Segment(kind="text", text=part))
            continue
        segments.append(Segment(kind="image", image=len(images)))
        images.append(image_of(part, folder=record.folder, base=page.base, reader=reader))
        src = "data:" if part.src.startswith("data:") else part.src
        named.append({key: text for key, text in (("src", src), ("alt", part.alt), ("title", part.title)) if text})
    if not segments:
        raise Bad("no_content", "the page has neither text nor pictures")
    changes.update(page.changes)
    changes["image_slots"] += len(images)
    facts = {"title": page.title, "language": page.language, "url": page.url, "images": named}
    return Draft(
        input=record.input,
        position=record.position,
        segments=tuple(segments),
        images=tuple(images),
        relations=(
            Relation(
                kind="interleaved",
                images=tuple(range(len(images))),
                segments=tuple(range(len(segments))),
                scope="example",
            ),
        ),
        metadata={**metadata, **{key: value for key, value in facts.items() if value}},
        group=page.url or record.input,
        changes=changes,
    )
