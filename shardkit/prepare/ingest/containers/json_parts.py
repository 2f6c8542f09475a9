"""Large JSON documents, an item at a time: where the items of their arrays and the members of their objects begin and end
is found first, and each is parsed when it is asked for. A document of 300 MB that is parsed whole takes six times its size.

Only the array that a document is, and arrays and large objects that an object at its top holds, are left in parts. What does
not look like JSON here is parsed whole, so that the strict reader says what is wrong with it.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shardkit.prepare.ingest.containers.lines import MAX_LINE
from shardkit.prepare.ingest.containers.strict_json import Parsed, parse
from shardkit.prepare.ingest.reasons import Bad

LARGE = 1 << 20
"""Bytes from which on an object at the top is left in parts; a smaller one is a value like any other."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_OBJECT = rb'\{[^{}"]*(?:"[^"\\]*(?:\\.[^"\\]*)*"[^{}"]*)*\}'
"""An object with no object in it, which most items are."""
_FLAT = re.compile(_OBJECT, re.DOTALL)
_MEMBER = re.compile(rb"(" + _OBJECT + rb")[ \t\r\n]*(?:(\])|,[ \t\r\n]*(?!\]))", re.DOTALL)
"""Such an item with what follows it: the end of the array, or a comma and the next item."""
_SIGN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\[\]{}\"]+")


class Items(Sequence[Any]):
    """The items of an array, each parsed when it is asked for.

    Attributes:
        changes: what was altered to keep the items that were asked for so far.
    """

    def __init__(self, data: bytes) -> None:
        self.changes: Counter[str] = Counter()
        self._data = data
        self._starts = array("Q")
        self._ends = array("Q")

    def add(self, start: int, end: int) -> None:
        """Note that the next item lies there."""
        self._starts.append(start)
        self._ends.append(end)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, place: Any) -> Any:
        """The item at a place.

        Raises:
            Bad: where it is none of strict JSON, or longer than a line may be.
        """
        start, end = self._starts[place], self._ends[place]
        if end - start > MAX_LINE:
            raise Bad("line_too_long", f"an entry of {end - start} bytes at byte {start}, the limit is {MAX_LINE}")
        parsed = parse(self._data[start:end])
        self.changes.update(parsed.changes)
        return parsed.value


class Members(Mapping[str, Any]):
    """The members of an object, each parsed when it is asked for."""

    def __init__(self, data: bytes) -> None:
        self._values = Items(data)
        self._places: dict[str, int] = {}

    @property
    def changes(self) -> Counter[str]:
        """What was altered to keep the members that were asked for so far."""
        return self._values.changes

    def add(self, name: str, start: int, end: int) -> None:
        """Note that the value of the member `name` lies there."""
        self._places[name] = len(self._values)
        self._values.add(start, end)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Any:
        """The value of a member.

        Raises:
            Bad: where it is none of strict JSON.
        """
        return self._values[self._places[name]]


class _Unlike(Exception):  # noqa: N818 - a signal: the strict reader is to look at the whole
    pass


def parse_parts(data: bytes) -> Parsed:
    """`parse`, with arrays at the top as `Items` and large objects there as `Members`.

    Raises:
        Bad: as `parse` does; for what is wrong inside an item, when that is asked for.
    """
    try:
        start = _past(data, 0)
        if data.startswith(b"[", start):
            items, end = _array(data, start)
            value: Any = items
        else:
            value, end = _object(data, start)
        if _past(data, end) < len(data):
            raise _Unlike
    except _Unlike:
        return parse(data)
    return Parsed(value=value)


def _object(data: bytes, place: int) -> tuple[dict[str, Any], int]:
    """The object at `place`, and where it ends."""
    if not data.startswith(b"{", place):
        raise _Unlike
    found: dict[str, Any] = {}
    place = _past(data, place + 1)
    while not data.startswith(b"}", place):
        key, place = _key(data, place)
        if key in found:
            raise _Unlike
        if data.startswith(b"[", place):
            found[key], place = _array(data, place)
        elif data.startswith(b"{", place) and len(data) - place >= LARGE:
            found[key], place = _members(data, place)
        else:
            end = _end(data, place)
            found[key], place = parse(data[place:end]).value, end
        place = _next(data, place, b"}")
    return found, place + 1


def _key(data: bytes, place: int) -> tuple[str, int]:
    """The name of the member at `place`, and where its value begins."""
    name = _STRING.match(data, place)
    colon = _past(data, name.end()) if name is not None else place
    if name is None or not data.startswith(b":", colon):
        raise _Unlike
    return parse(name[0]).value, _past(data, colon + 1)


def _members(data: bytes, start: int) -> tuple[Any, int]:
    """The object at `start`, in parts where it is large, and where it ends."""
    members = Members(data)
    place = _past(data, start + 1)
    while not data.startswith(b"}", place):
        key, place = _key(data, place)
        if key in members:
            raise _Unlike
        end = _end(data, place)
        members.add(key, place, end)
        place = _next(data, end, b"}")
    end = place + 1
    return (members if end - start >= LARGE else parse(data[start:end]).value), end


def _array(data: bytes, place: int) -> tuple[Items, int]:
    """The items of the array at `place`, and where it ends."""
    items = Items(data)
    place = _past(data, place + 1)
    while not data.startswith(b"]", place):
        if (member := _MEMBER.match(data, place)) is not None:
            items.add(*member.span(1))
            place = member.end()
            if member[2]:
                return items, place
            continue
        end = _end(data, place)
        items.add(place, end)
        place = _next(data, end, b"]")
    return items, place + 1


def _next(data: bytes, place: int, closing: bytes) -> int:
    """Where the next member begins, or the closing sign stands."""
    place = _past(data, place)
    if data.startswith(b",", place):
        place = _past(data, place + 1)
        if not data.startswith(closing, place):
            return place
    elif data.startswith(closing, place):
        return place
    raise _Unlike


def _past(data: bytes, place: int) -> int:
    """Where white space at `place` is over."""
    found = _SPACE.match(data, place)
    return place if found is None else found.end()


def _end(data: bytes, place: int) -> int:
    """Where the value at `place` ends."""
    found = _FLAT.match(data, place) or _STRING.match(data, place) or _SCALAR.match(data, place)
    if found is not None:
        return found.end()
    depth = 0
    for sign in _SIGN.finditer(data, place):
        if not depth and sign.start() > place:
            break
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(sign[0], 0)
        if depth <= 0:
            return sign.end()
    raise _Unlike
