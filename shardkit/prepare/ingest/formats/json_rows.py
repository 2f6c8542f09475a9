"""Rows kept as one JSON array, as ShareGPT, LLaVA and Alpaca are published: the entry's number is its position."""

from __future__ import annotations

import json
from typing import Any

from shardkit.prepare.ingest.containers.documents import Entries, Entry
from shardkit.prepare.ingest.containers.json_parts import Items
from shardkit.prepare.ingest.reasons import Bad

_BOM = b"\xef\xbb\xbf"
_SPACE = " \t\r\n"


def is_list(_name: str, head: bytes) -> bool:
    """Whether a file, by its first bytes, is an array of objects."""
    text = head.removeprefix(_BOM).lstrip()
    return text.startswith(b"[") and text[1:].lstrip()[:1] in (b"{", b"]")


def entries(value: Any) -> Entries:
    """The entries of an array.

    Raises:
        Bad: where the document is none.
    """
    if not isinstance(value, list | Items):
        raise Bad("wrong_type", "the document is no array of rows")
    return Entries(entries=(Entry(position=str(k), value=entry) for k, entry in enumerate(value, 1)))


def first_rows(head: bytes, most: int) -> list[dict[str, Any]]:
    """The objects that stand whole in the first bytes of an array, at most `most`; none of what is no array."""
    if not is_list("", head):
        return []
    text = head.removeprefix(_BOM).decode("utf-8", "replace").lstrip()
    decoder = json.JSONDecoder()
    rows: list[dict[str, Any]] = []
    place = 1
    while len(rows) < most:
        while text[place : place + 1] in (*_SPACE, ","):
            place += 1
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        rows += [value] if isinstance(value, dict) else []
    return rows
