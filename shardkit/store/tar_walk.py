"""What lies where in a tar: own headers, own checks, nothing extracted, no silent end.

Each header's checksum must fit; sizes are never negative; data must be there whole; a zero block ends the archive and
only zeros may follow. Anything else is `Damaged`, with the byte at which it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

BLOCK = 512
MAX_EXTENDED = 1 << 20
"""Bytes of one extended header (PAX, GNU long name)."""
MAX_MEMBERS = 1_000_000

_ZERO = bytes(BLOCK)
_MEBIBYTE = 1 << 20
_OCTAL = re.compile(rb"[0-7]+")
_REGULAR = (b"0", b"\0", b"7")
_KINDS = {b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a pipe"}


class Damaged(Exception):  # noqa: N818 - a finding about the data; its handlers make a SourceError of it
    """An archive or a stream ends or breaks where it must not; `place` is the number of bytes before."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.what = what
        self.place = place


class Forwards(Protocol):
    """Bytes that are read in their order."""

    @property
    def position(self) -> int:
        """How many came."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none only at the end."""

    def skip_to(self, position: int, /) -> None:
        """Go on there, or at the end where that comes first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    name: str
    """Without `./` and doubled slashes."""
    offset: int
    """Of its data, in bytes after decompression."""
    size: int
    unsafe: str = ""
    """Why it may not be used: a link, a device, a name that leads out; empty for a regular file."""
    data: bytes | None = None
    """Its bytes, where the walk was asked to keep small members."""


def walk(stream: Forwards, *, size: int | None, keep: int = 0) -> Iterator[Member]:
    """Yield every member but folders, in order.

    Args:
        stream: at byte 0.
        size: bytes of the archive where they are known (a plain file), so that data need not be read.
        keep: members up to this size come with their bytes.

    Raises:
        Damaged: at the first thing that is not as it must be.
    """
    position = members = 0
    extended: dict[str, str] = {}
    while True:
        header = _exactly(stream, BLOCK)
        if len(header) < BLOCK:
            what = "it is cut off inside a header" if header else "the end mark is missing, it may be cut off"
            raise Damaged(what if position or header else "an empty file is no archive", position)
        if header == _ZERO:
            _only_zeros(stream, position)
            return
        _check_sum(header, position)
        kind, length = header[156:157], _number(header[124:136], position)
        data_at = position + BLOCK
        if size is not None and data_at + length > size:
            raise Damaged(f"it is cut off: a member of {length} bytes has {max(0, size - data_at)}", position)
        if kind in (b"x", b"g", b"L", b"K"):
            if length > MAX_EXTENDED:
                raise Damaged(f"an extended header of {length} bytes is over the limit of {MAX_EXTENDED}", position)
            extended.update(_extended(kind, _data(stream, length, position), position))
        else:
            members += 1
            if members > MAX_MEMBERS:
                raise Damaged(f"it has more than {MAX_MEMBERS} members", position)
            length = _size_of(extended, length, data_at, size, position)
            name = extended.get("path") or _name(header)
            held = _data(stream, length, position) if length <= keep else None
            if size is None and held is None:
                # How long a compressed archive is shows only when its bytes come; a member must be there whole.
                stream.skip_to(data_at + length)
                if stream.position < data_at + length:
                    got = max(0, stream.position - data_at)
                    raise Damaged(f"it is cut off: a member of {length} bytes has {got}", position)
            folder = kind == b"5" or (kind in _REGULAR and name.endswith("/"))
            if not folder:
                yield _member(name, kind, extended, offset=data_at, size=length, data=held)
            extended = {}
        position = data_at + -(-length // BLOCK) * BLOCK
        stream.skip_to(position)


def _size_of(extended: dict[str, str], length: int, data_at: int, size: int | None, position: int) -> int:
    if "size" not in extended:
        return length
    if not (extended["size"].isdecimal() and len(extended["size"]) < 20):
        raise Damaged(f"an extended header gives the size {extended['size'][:20]!r}", position)
    length = int(extended["size"])
    if size is not None and data_at + length > size:
        raise Damaged(f"it is cut off: a member of {length} bytes has {max(0, size - data_at)}", position)
    return length


def _member(name: str, kind: bytes, extended: dict[str, str], *, offset: int, size: int, data: bytes | None) -> Member:
    unsafe = _KINDS.get(kind, "") if kind not in _REGULAR else ""
    if kind not in _REGULAR and not unsafe:
        unsafe = f"of the unknown type {kind!r}"
    if any(key.startswith("GNU.sparse") for key in extended):
        unsafe = "a sparse file"
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or not parts:
        unsafe = "named outside the archive"
    plain_name = ("/" if name.startswith("/") else "") + "/".join(parts)
    return Member(name=plain_name, offset=offset, size=size, unsafe=unsafe, data=None if unsafe else data)


def _exactly(stream: Forwards, size: int) -> bytes:
    """`size` bytes, or fewer at the end of the stream."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _data(stream: Forwards, size: int, position: int) -> bytes:
    data = _exactly(stream, size)
    if len(data) < size:
        raise Damaged(f"it is cut off: a member of {size} bytes has {len(data)}", position)
    return data


def _only_zeros(stream: Forwards, position: int) -> None:
    place = position + BLOCK
    while block := stream.read(_MEBIBYTE):
        if block.count(0) != len(block):
            raise Damaged("bytes follow the end mark, perhaps a second archive", place)
        place += len(block)


def _check_sum(header: bytes, position: int) -> None:
    stated = header[148:156].split(b"\0")[0].strip(b" ")
    # The sum is taken with spaces in the place of the sum itself.
    total = sum(header) - sum(header[148:156]) + 8 * 32
    if not _OCTAL.fullmatch(stated) or int(stated, 8) != total:
        what = "no tar header stands here" if not position else "the header's checksum is wrong"
        raise Damaged(what, position)


def _number(digits: bytes, position: int) -> int:
    if digits[0] & 0x80:
        value = int.from_bytes(digits, "big") & ((1 << 95) - 1)
        if digits[0] & 0x40 or value >> 63:
            raise Damaged("a member has a negative or impossible size", position)
        return value
    text = digits.split(b"\0")[0].strip(b" ")
    if not text:
        return 0
    if not _OCTAL.fullmatch(text):
        shown = text.decode("ascii", "replace")
        raise Damaged(f"a member has the negative or impossible size {shown}", position)
    return int(text, 8)


def _name(header: bytes) -> str:
    name = header[:100].split(b"\0", 1)[0]
    if header[257:263] == b"ustar\0" and (prefix := header[345:500].split(b"\0", 1)[0]):
        name = prefix + b"/" + name
    return name.decode("utf-8", "backslashreplace")


def _extended(kind: bytes, data: bytes, position: int) -> dict[str, str]:
    """What an extended header says of the next member."""
    if kind in (b"L", b"K"):
        text = data.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
        return {"path" if kind == b"L" else "linkpath": text}
    found: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at : at + 1] != b"\0":
        space = data.find(b" ", at)
        digits = data[at:space] if space > 0 else b""
        end = at + int(digits) if digits.isdigit() and len(digits) < 8 else at
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if end <= space or end > len(data) or not equals or data[end - 1 : end] != b"\n":
            raise Damaged("an extended header is broken", position)
        found[key.decode("utf-8", "backslashreplace")] = value.decode("utf-8", "backslashreplace")
        at = end
    # A global header ("g") names no member; a path in it would rename all of them.
    return found if kind == b"x" else {}
