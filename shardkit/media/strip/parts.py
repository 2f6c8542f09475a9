"""A file put together again from pieces of itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Stripped:
    data: bytes
    """What is stored."""
    removed: dict[str, int]
    """Name of what went -> number of bytes; empty where `data` is the file as it came."""


class Parts:
    """Pieces kept, in order, and a count of the bytes left out by name.

    Pieces are views until `join`: the compressed pixels are copied once, and not at all where nothing goes.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._view = memoryview(data)
        self._pieces: list[bytes | memoryview] = []
        self._removed: Counter[str] = Counter()

    def keep(self, start: int, stop: int) -> None:
        self._pieces.append(self._view[start:stop])

    def put(self, piece: bytes) -> None:
        """A piece that is new, or stands for one of the file."""
        self._pieces.append(piece)

    def drop(self, name: str, num_bytes: int) -> None:
        if num_bytes > 0:
            self._removed[name] += num_bytes

    def join(self) -> Stripped:
        if not self._removed:
            return Stripped(data=bytes(self._data), removed={})
        return Stripped(data=b"".join(self._pieces), removed=dict(sorted(self._removed.items())))
