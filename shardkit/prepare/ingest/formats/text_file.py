"""Text files: UTF-8, or UTF-16 and UTF-32 where their first bytes say so, without what is no text.

No other encoding is guessed: bytes that are none of these may be of a dozen, and the wrong one gives wrong letters in silence.
"""

from __future__ import annotations

import codecs
from collections import Counter

from shardkit.prepare.ingest.reasons import Bad

MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
"""Byte order marks and what they tell; the mark of UTF-32 comes before the one of UTF-16 that it begins with."""


def decoded(data: bytes, changes: Counter[str]) -> str:
    """The text of a file: without byte order mark and one final line end, CRLF as LF; each counted in `changes`.

    Raises:
        Bad: where it is no UTF-8, or not of the encoding that its mark tells.
    """
    mark, name = _mark(data)
    if mark:
        changes["byte_order_mark"] += 1
    text = _decoded(data[len(mark) :], name, changes, is_told=bool(mark))
    if "\r\n" in text:
        changes["crlf_text"] += 1
        text = text.replace("\r\n", "\n")
    return text.removesuffix("\n")


def json_of(data: bytes, changes: Counter[str]) -> bytes:
    """The JSON of a file as UTF-8 without a byte order mark; where it is transcoded, that is counted in `changes`.

    Raises:
        Bad: where it is not of the wide encoding that its mark tells.
    """
    mark, name = _mark(data)
    body = data[len(mark) :]
    return body if name == "utf-8" else _decoded(body, name, changes, is_told=True).encode()


def _mark(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the head of a file, and the encoding."""
    return next((entry for entry in MARKS if data.startswith(entry[0])), (b"", "utf-8"))


def _decoded(data: bytes, name: str, changes: Counter[str], *, is_told: bool) -> str:
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        shown = f"byte {error.start}, 0x{data[error.start]:02x}, is no {name.upper()}"
        raise Bad(
            "invalid_utf8" if name == "utf-8" else "bad_encoding",
            shown if is_told else f"{shown}; convert the file first: iconv -f ENCODING -t UTF-8",
        ) from None
    if name != "utf-8":
        changes["transcoded_text"] += 1
    return text
