"""Inputs as streams of bytes: what counts is the content, not the name, so gzip, zstd and bzip2 open as they are.

Streams of several members, as parallel compressors and `cat` write them, are read to their end. A stream that is cut
or damaged raises `Damaged` with the place, and never ends early in silence.
"""

from __future__ import annotations

import bz2
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import InputFile
from shardkit.store.tar_walk import Damaged as Damaged  # noqa: PLC0414 - what streams raise

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Known = TypeVar("Known")

_BLOCK = 1 << 20
_INPUT = 1 << 16
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_WIDE = (
    (b"\xff\xfe\0\0", "utf-32-le"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)  # fmt: skip
"""How files in wide characters begin: with their mark, or an XML file without one."""
_SKIPPABLE = b"\x2a\x4d\x18"


def as_utf8(head: bytes) -> bytes:
    """The beginning of a file, as UTF-8 where it says that it is in wide characters."""
    wide = next((name for start, name in _WIDE if head.startswith(start)), None)
    return head if wide is None else head.decode(wide, "replace").lstrip("\ufeff").encode()


def compression(head: bytes) -> str | None:
    """gzip | zstd | bzip2, or None for plain bytes, by the first bytes of a file."""
    if head[1:4] == _SKIPPABLE and head[0] & 0xF0 == 0x50:
        return "zstd"  # parallel compressors put a frame of their own before the data
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


class Stream:
    """Bytes of an input after decompression, read forwards.

    Args:
        file: the input; its first bytes decide about the compression.

    Attributes:
        position: how many bytes have come out.
        compression: gzip | zstd | bzip2 | None.
    """

    def __init__(self, file: InputFile) -> None:
        self.position = 0
        self._file = file
        self._raw = open_input(file.path, file.name)
        self.compression = compression(self._raw.read(4))
        self._raw.seek(0)
        self._inner = _decompressed(self._raw, self.compression)

    def read(self, size: int = _BLOCK) -> bytes:
        """Up to `size` bytes; b"" only at the true end.

        Raises:
            Damaged: where the compressed data is cut or broken.
        """
        try:
            data = self._inner.read(size)
        except (EOFError, zlib.error, pa.ArrowException, OSError) as error:
            raise Damaged(
                f"the {self.compression or 'file'} stream is damaged or cut off ({error})", self.position
            ) from error
        self.position += len(data)
        return data

    def skip_to(self, position: int) -> None:
        """Go forward to `position`; a plain file seeks, a compressed one is read and thrown away."""
        if self.compression is None:
            self._inner.seek(position)
            self.position = position
        while self.position < position and self.read(min(_BLOCK, position - self.position)):
            pass

    def close(self) -> None:
        self._inner.close()
        self._raw.close()


def unpacked(data: bytes, most: int) -> bytes:
    """The bytes of a whole file that may be compressed; plain ones as they are.

    Raises:
        Bad: where it is cut or damaged, or unpacks to more than `most` bytes.
    """
    kind = compression(data[:4])
    if kind is None:
        return data
    stream = _decompressed(io.BytesIO(data), kind)
    blocks: list[bytes] = []
    size = 0
    try:
        while block := stream.read(_BLOCK):
            blocks.append(block)
            size += len(block)
            if size > most:
                raise Bad("too_many_bytes", f"it unpacks to more than {most} bytes")
    except (EOFError, zlib.error, pa.ArrowException, OSError) as error:
        raise Bad("damaged_input", f"the {kind} stream is damaged or cut off behind byte {size} ({error})") from None
    return b"".join(blocks)


def _decompressed(raw: IO[bytes], kind: str | None) -> IO[bytes] | _Blocks:
    if kind == "gzip":
        return _Blocks(_gzip_blocks(raw))
    if kind == "bzip2":
        return _Blocks(_bzip2_blocks(raw))
    if kind == "zstd":
        return _Blocks(_zstd_blocks(raw))
    return raw


def _gzip_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Every member; the gzip module of the standard library reads ahead and loses what came out before a cut."""
    decoder = None
    pending = raw.read(_INPUT)
    while pending:
        decoder = decoder or zlib.decompressobj(wbits=31)
        yield decoder.decompress(pending, _BLOCK)
        pending = decoder.unconsumed_tail
        if decoder.eof:
            # Zeros between members are padding, as tape tools write it; anything else must be a member.
            pending = decoder.unused_data.lstrip(b"\0")
            decoder = None
        pending = pending or raw.read(_INPUT)
        if decoder is None:
            pending = pending.lstrip(b"\0")
    if decoder is not None:
        yield decoder.flush()
        raise EOFError("it ends inside a member")


def _bzip2_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Every member; the bz2 module of the standard library takes a damaged second member for the end."""
    decoder = None
    pending = raw.read(_INPUT)
    while pending or (decoder is not None and not decoder.needs_input):
        decoder = decoder or bz2.BZ2Decompressor()
        yield decoder.decompress(pending, _BLOCK)
        pending = b""
        if decoder.eof:
            pending = decoder.unused_data
            decoder = None
        if not pending and (decoder is None or decoder.needs_input):
            pending = raw.read(_INPUT)
    if decoder is not None:
        raise EOFError("it ends inside a member")


def _zstd_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    while block := stream.read(_INPUT):
        yield block


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file; an error of their maker comes out after everything before it."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._held:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._held = memoryview(block)
        view = memoryview(buffer)
        count = min(len(view), len(self._held))
        view[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


class Opener:
    """Opens inputs at a position and keeps the last stream, so that the slices of one file are read in one go."""

    def __init__(self) -> None:
        self._name = ""
        self._stream: Stream | None = None
        self._known: dict[str, Any] = {}

    def remember(self, name: str, make: Callable[[], Known]) -> Known:
        """What `make` gives for the input `name`; kept until it is forgotten, so that planning and reading share it."""
        if name not in self._known:
            self._known[name] = make()
        known: Known = self._known[name]
        return known

    def forget(self, names: Iterable[str]) -> None:
        """Let go of what was remembered of inputs that are done."""
        for name in names:
            self._known.pop(name, None)

    def at(self, file: InputFile, position: int) -> Stream:
        """A stream of `file` at `position` bytes after decompression."""
        if self._stream is None or self._name != file.name or self._stream.position > position:
            self.close()
            self._stream = Stream(file)
            self._name = file.name
        self._stream.skip_to(position)
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
