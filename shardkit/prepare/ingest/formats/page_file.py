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

_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SUBSET = re.compile(r"\s*(?:<\?[^>]*>\s*|<!--.*?-->\s*)*<!doctype[^>\[]*\[", re.IGNORECASE | re.DOTALL)
_CHARSETS = {
    "big5": "big5hkscs", "euc-jp": "euc_jp", "euc-kr": "cp949", "gb18030": "gb18030", "gb2312": "gb18030", "gbk": "gb18030",
    "iso-2022-jp": "iso2022_jp", "iso-8859-1": "cp1252", "iso-8859-15": "iso8859_15", "iso-8859-2": "iso8859_2",
    "koi8-r": "koi8_r", "latin1": "cp1252", "shift-jis": "cp932", "shift_jis": "cp932", "us-ascii": "cp1252",
    "windows-1250": "cp1250", "windows-1251": "cp1251", "windows-1252": "cp1252", "windows-31j": "cp932",
}  # fmt: skip
"""What pages call their encoding -> the codec that browsers take for it."""


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
