"""Text files: UTF-8, without what is no text."""

from __future__ import annotations

from collections import Counter

from shardkit.prepare.ingest.reasons import Bad

_BOM = b"\xef\xbb\xbf"


def decoded(data: bytes, changes: Counter[str]) -> str:
    """The text of a file: without byte order mark and one final line end, CRLF as LF; each counted in `changes`.

    Raises:
        Bad: where it is no UTF-8.
    """
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        changes["byte_order_mark"] += 1
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("invalid_utf8", f"byte {error.start}, 0x{data[error.start]:02x}, is no UTF-8") from None
    if "\r\n" in text:
        changes["crlf_text"] += 1
        text = text.replace("\r\n", "\n")
    return text.removesuffix("\n")
