"""GIF: extensions that are no picture go, and so does everything behind the trailer.

Kept are the screen, colour tables, graphic controls, all frames, the loop count (NETSCAPE2.0, ANIMEXTS1.0) and an
ICC profile (ICCRGBG1012). Comments, XMP, plain text and other extensions go.
"""

from __future__ import annotations

from shardkit.media.strip.parts import Parts, Stripped

_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_CONTROL, _COMMENT, _PLAIN_TEXT, _APPLICATION = 0xF9, 0xFE, 0x01, 0xFF
_KEPT_APPLICATIONS = (b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012")


def strip_gif(data: bytes | memoryview, orientation: int) -> Stripped:
    assert orientation == 1, "a GIF has no orientation"
    parts = Parts(data)
    at = 13 + _table_size(data[10])
    parts.keep(0, at)
    while at < len(data) and data[at] != _TRAILER:
        start = at
        name = ""
        if data[at] == _IMAGE and at + 10 <= len(data):
            at = _blocks_end(data, at + 11 + _table_size(data[at + 9]))
        elif data[at] == _EXTENSION and at + 3 <= len(data) and not _is_ambiguous(data, at):
            at = _blocks_end(data, at + 2)
            name = _unwanted(data[start + 1], bytes(data[start + 3 : min(at, start + 14)]))
        else:
            # Decoders differ over what comes now, so from here on the bytes stay.
            parts.keep_unread(at)
            return parts.join()
        if name:
            parts.drop(name, at - start)
        else:
            parts.keep(start, at)
    parts.keep(at, at + 1)
    parts.drop("tail", len(data) - at - 1)
    return parts.join()


def _is_ambiguous(data: bytes | memoryview, at: int) -> bool:
    """Whether decoders differ over where the extension at `at` ends: its first block, or its loop count, is empty."""
    if data[at + 1] == _COMMENT:
        return False
    size = data[at + 2]
    is_loop = data[at + 1] == _APPLICATION and data[at + 3 : at + 14] == b"NETSCAPE2.0"
    return size == 0 or (is_loop and not any(data[at + 3 + size : at + 4 + size]))


def _table_size(flags: int) -> int:
    """Bytes of the colour table that the packed byte of a screen or a frame announces."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _blocks_end(data: bytes | memoryview, at: int) -> int:
    """The place behind a run of sub-blocks: each begins with its size, an empty one ends the run."""
    while at < len(data) and data[at]:
        at += data[at] + 1
    return min(at + 1, len(data))


def _unwanted(label: int, application: bytes) -> str:
    if label == _COMMENT:
        return "comment"
    if label == _PLAIN_TEXT:
        return "text"
    if label == _CONTROL:
        return ""
    if label == _APPLICATION and application in _KEPT_APPLICATIONS:
        return ""
    return "xmp" if application.startswith(b"XMP Data") else "application"
