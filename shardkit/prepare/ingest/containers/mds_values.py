"""Values of MDS samples, by the encoding that the shard names for their column.

Pictures come as the bytes that were stored. Raw pixels (`pil`) get the header of a PNM file before them, so that they are a
picture file without being encoded. `pkl` is not here: reading one runs what is in it.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from shardkit.prepare.ingest.containers.strict_json import parse
from shardkit.prepare.ingest.reasons import Bad, plain

UNSAFE = "pkl"
_PNM = {"L": b"P5", "RGB": b"P6"}
_DIMENSIONS = ("u1", "<u2", "<u4", "<u8")
"""Types of the dimensions of an array, by the code in its head."""
_ELEMENTS = {
    8: "u1", 9: "i1", 16: "<u2", 17: "<i2", 18: "<f2", 32: "<u4", 33: "<i4", 34: "<f4", 64: "<u8", 65: "<i8", 66: "<f8",
}  # fmt: skip
"""Types of the values of an array, by the code in its head."""
_MOST_DIGITS = 1000
_TYPES = {
    "uint8": "u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "int8": "i1", "int16": "<i2", "int32": "<i4",
    "int64": "<i8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "int": "<i8",
}  # fmt: skip


def known(encoding: str) -> bool:
    """Whether values of an encoding can be read here."""
    name, _, arguments = encoding.partition(":")
    if name == "ndarray":
        return _array_form(arguments) is not None
    return not arguments and (name in _TYPES or name in _READERS)


def decoded(encoding: str, data: bytes) -> Any:
    """The value of a column.

    Raises:
        Bad: where the bytes are not those of a value.
    """
    name, _, arguments = encoding.partition(":")
    try:
        if name == "ndarray":
            return _array(arguments, data)
        if name in _TYPES:
            (value,) = np.frombuffer(data, _TYPES[name])
            return value.item()
        return _READERS[name](data)
    except UnicodeDecodeError as error:
        raise Bad("invalid_utf8", f"byte {error.start} of a value, 0x{data[error.start]:02x}, is no UTF-8") from None
    except (ValueError, OverflowError, struct.error, IndexError, decimal.InvalidOperation) as error:
        raise Bad("wrong_type", f"{len(data)} bytes are no {plain(encoding)} ({plain(str(error), 40)})") from None


def _pixels(data: bytes) -> bytes:
    """Raw pixels as a PNM file: width, height and the length of the mode as four bytes each, mode, pixels."""
    width, height, length = struct.unpack_from("<III", data)
    mode = data[12 : 12 + length].decode("ascii")
    pixels = data[12 + length :]
    if mode not in _PNM:
        raise Bad("image_value", f"raw pixels of mode {plain(mode, 20)}; only L and RGB are read")
    if len(pixels) != width * height * (3 if mode == "RGB" else 1):
        raise Bad("image_value", f"{len(pixels)} bytes of raw pixels are no {width} x {height} {mode}")
    return b"%s %d %d 255\n%s" % (_PNM[mode], width, height, pixels)


def _several(data: bytes, at: int, read: Callable[[bytes], Any]) -> list[Any]:
    """A list: at byte `at` the number of entries, then the size of each, then the entries."""
    (count,) = struct.unpack_from("<I", data, at)
    sizes = struct.unpack_from(f"<{count}I", data, at + 4)
    place = at + 4 + 4 * count
    if place + sum(sizes) != len(data):
        raise ValueError("sizes that do not add up")
    entries = []
    for size in sizes:
        entries.append(read(data[place : place + size]))
        place += size
    return entries


def _array_form(arguments: str) -> tuple[str | None, tuple[int, ...] | None] | None:
    """Type and shape of `ndarray:TYPE:SHAPE`, each None where the values state it; None where it is none."""
    kind, _, shape = arguments.partition(":")
    if kind and (kind not in _TYPES or kind == "int"):
        return None
    if not shape:
        return _TYPES.get(kind), None
    if not all(part.isdigit() and int(part) for part in shape.split(",")):
        return None
    return _TYPES.get(kind), tuple(map(int, shape.split(",")))


def _array(arguments: str, data: bytes) -> list[Any]:
    form = _array_form(arguments)
    assert form is not None, "looked at when the shard was opened"
    kind, shape = form
    place = 0
    if kind is None:
        if data[0] not in _ELEMENTS:
            raise ValueError(f"type {data[0]}")
        kind, place = _ELEMENTS[data[0]], 1
    if shape is None:
        dimensions, width = _DIMENSIONS[data[place] % 4], 1 << data[place] % 4
        count = data[place] >> 2
        place += 1
        shape = tuple(np.frombuffer(data[place : place + count * width], dimensions).tolist())
        place += count * width
    values: list[Any] = np.frombuffer(data[place:], kind).reshape(shape).tolist()
    return values


def _whole_number(data: bytes) -> int | str:
    """A number of any size; one over 64 bits as its digits, which JSON can keep."""
    text = data.decode("ascii")
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 64 else str(value)


def _json(data: bytes) -> Any:
    return parse(data).value


_READERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "str": lambda data: data.decode(),
    "str_int": _whole_number,
    "str_float": lambda data: float(data.decode("ascii")),
    "str_decimal": lambda data: decimal.Decimal(data.decode("ascii")),
    "json": _json,
    "jpeg": bytes,
    "png": bytes,
    "pil": _pixels,
    "list[jpeg]": lambda data: _several(data, 4, bytes),
    "list[png]": lambda data: _several(data, 4, bytes),
    "list[pil]": lambda data: _several(data, 4, _pixels),
    "jpeg_array": lambda data: _several(data, 0, bytes),
    "jpegarray": lambda data: _several(data, 0, bytes),
}
"""Encoding -> the value of its bytes. A list begins with four bytes that mean nothing yet."""
