"""PBM, PGM and PPM: comments go, and in the binary forms everything behind the samples."""

from __future__ import annotations

import re

from shardkit.media.strip.parts import Parts, Stripped

_COMMENT = re.compile(rb"#[^\r\n]*[\r\n]?")
_PLAIN = (b"P1", b"P2", b"P3")
_BITMAP, _PIXMAP = b"P4", b"P6"


def strip_pnm(data: bytes | memoryview, orientation: int) -> Stripped:
    assert orientation == 1, "a PNM has no orientation"
    parts = Parts(data)
    magic = bytes(data[:2])
    header = len(data) if magic in _PLAIN else _header_end(data, 2 if magic == _BITMAP else 3)
    at = 0
    while (found := _COMMENT.search(data, at, header)) is not None:
        parts.keep(at, found.start())
        parts.drop("comment", found.end() - found.start())
        at = found.end()
    end = len(data) if magic in _PLAIN else min(len(data), header + _num_sample_bytes(magic, bytes(data[:header])))
    parts.keep(at, end)
    parts.drop("tail", len(data) - end)
    return parts.join()


def _header_end(data: bytes | memoryview, num_numbers: int) -> int:
    """The place behind the one white space that follows the header's last number."""
    at = 2
    for _ in range(num_numbers):
        while data[at : at + 1] == b"#" or bytes(data[at : at + 1]).isspace():
            found = _COMMENT.match(data, at)
            at = found.end() if found else at + 1
        while at < len(data) and not bytes(data[at : at + 1]).isspace():
            found = _COMMENT.match(data, at)
            at = found.end() if found else at + 1
    return at + 1


def _num_sample_bytes(magic: bytes, header: bytes) -> int:
    numbers = [int(number) for number in _COMMENT.sub(b"", header)[2:].split()]
    width, height = numbers[0], numbers[1]
    if magic == _BITMAP:
        return (width + 7) // 8 * height
    return width * height * (3 if magic == _PIXMAP else 1) * (1 if numbers[2] < 256 else 2)
