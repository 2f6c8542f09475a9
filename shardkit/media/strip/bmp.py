"""BMP: bytes behind the pixels go.

The pixels end where the header's own numbers say; run-length data ends with its end-of-bitmap mark, and a file whose data
has none stays as it is, and so does one whose header does not say plainly where the pixels begin. A colour profile that
the header of a fifth version names is kept with all that lies before it.
"""

from __future__ import annotations

from shardkit.media.strip.parts import Parts, Stripped, left_alone

_FIFTH_VERSION = 124
_RLE8, _RLE4 = 1, 2
_PROFILE_EMBEDDED = 0x4D424544


def strip_bmp(data: bytes | memoryview, orientation: int) -> Stripped:
    assert orientation == 1, "a BMP has no orientation"
    end = _end(data)
    if end is None:
        return left_alone(data)
    parts = Parts(data)
    parts.keep(0, end)
    parts.drop("tail", len(data) - end)
    return parts.join()


def _end(data: bytes | memoryview) -> int | None:
    pixels, size = _u32(data, 10), _u32(data, 14)
    if size == 12:
        width, height, bits, compression = _u16(data, 18), _u16(data, 20), _u16(data, 24), 0
        palette = 3 << bits if bits <= 8 else 0
    else:
        width, height, bits, compression = _u32(data, 18), _u32(data, 22), _u16(data, 28), _u32(data, 30)
        palette = 4 * (_u32(data, 46) or 1 << bits) if bits <= 8 else 0
    if pixels < 14 + size + palette:
        return None
    height = min(height, 2**32 - height)  # rows from the top down are written as a negative height
    if compression in (_RLE8, _RLE4):
        end = _run_length_end(data, pixels, compression)
        if end is None:
            return None
    else:
        end = pixels + (width * bits + 31) // 32 * 4 * height
    if size == _FIFTH_VERSION and _u32(data, 14 + 56) == _PROFILE_EMBEDDED:
        end = max(end, 14 + _u32(data, 14 + 112) + _u32(data, 14 + 116))
    return end


def _run_length_end(data: bytes | memoryview, at: int, compression: int) -> int | None:
    while at + 2 <= len(data):
        count, value = data[at], data[at + 1]
        at += 2
        if count:
            continue
        if value == 1:
            return at
        if value == 2:
            at += 2
        elif value > 2:
            at += value if compression == _RLE8 else (value + 1) // 2
            at += at % 2
    return None


def _u16(data: bytes | memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _u32(data: bytes | memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
