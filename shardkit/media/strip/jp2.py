"""JPEG 2000: boxes that hold no picture go, and everything behind the first code stream. A bare code stream stays as it is."""

from __future__ import annotations

from shardkit.media.strip.parts import Parts, Stripped

_KEPT = (b"jP  ", b"ftyp", b"rreq", b"jp2h")
_CODE_STREAM = b"jp2c"
_BARE = b"\xff\x4f"
_END_OF_STREAM = b"\xff\xd9"


def strip_jp2(data: bytes | memoryview, orientation: int) -> Stripped:
    assert orientation == 1, "a JPEG 2000 file has no orientation"
    parts = Parts(data)
    at, name = 0, b""
    if data[:2] == _BARE:
        parts.keep(0, len(data))
        return parts.join()
    while name != _CODE_STREAM and at + 8 <= len(data):
        start, name = at, bytes(data[at + 4 : at + 8])
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        at = min(len(data), at + size) if size >= 8 else len(data)
        if name == _CODE_STREAM and data[at - 2 : at] != _END_OF_STREAM:
            # Decoders read on to the end of the stream, whatever size its box has.
            parts.keep_unread(start)
            return parts.join()
        if name in _KEPT or name == _CODE_STREAM:
            parts.keep(start, at)
        else:
            parts.drop("xmp" if name in (b"xml ", b"uuid") else "box", at - start)
    parts.drop("tail", len(data) - at)
    return parts.join()
