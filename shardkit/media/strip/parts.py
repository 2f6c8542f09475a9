"""A file put together again from pieces of itself."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

Place = tuple[int, int]
"""Start and stop of some bytes in a file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stripped:
    data: bytes
    """What is stored."""
    removed: dict[str, int]
    """Name of what went -> number of bytes; empty where `data` is the file as it came."""
    is_sure: bool = True
    """False for a file too strange to be taken apart, or from some place on: metadata may be left in it."""


def left_alone(data: bytes | memoryview) -> Stripped:
    """A strange file, as it came."""
    return Stripped(data=bytes(data), removed={}, is_sure=False)


class Parts:
    """Pieces kept, in order, and a count of the bytes left out by name.

    Pieces are views until `join`: the compressed pixels are copied once, and not at all where nothing goes.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._view = memoryview(data)
        self._pieces: list[bytes | memoryview] = []
        self._removed: Counter[str] = Counter()
        self._is_sure = True

    def keep(self, start: int, stop: int) -> None:
        self._pieces.append(self._view[start:stop])

    def put(self, piece: bytes) -> None:
        """A piece that is new, or stands for one of the file."""
        self._pieces.append(piece)

    def drop(self, name: str, num_bytes: int) -> None:
        if num_bytes > 0:
            self._removed[name] += num_bytes

    def keep_unread(self, start: int) -> None:
        """The rest of the file, which cannot be taken apart for sure."""
        self.keep(start, len(self._view))
        self._is_sure = False

    def join(self) -> Stripped:
        data = b"".join(self._pieces) if self._removed else bytes(self._data)
        return Stripped(data=data, removed=dict(sorted(self._removed.items())), is_sure=self._is_sure)


class Places:
    """Many places of a file, asked whether one more meets any of them."""

    def __init__(self, places: list[Place]) -> None:
        ordered = sorted(places)
        self._starts = [start for start, _ in ordered]
        self._reach = list(accumulate((stop for _, stop in ordered), max))
        """How far the places up to each one reach."""

    def meet(self, place: Place) -> bool:
        number = bisect_left(self._starts, place[1])
        return number > 0 and self._reach[number - 1] > place[0]
