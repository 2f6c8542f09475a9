"""WebP: a list of RIFF chunks to keep; the size in the RIFF header and the flags of VP8X follow.

Kept are VP8X, ICCP, ANIM, ANMF (frames), ALPH, VP8 and VP8L. Only a file with VP8X can say which way up it is.
"""

from __future__ import annotations

from shardkit.media.orientation import minimal_exif
from shardkit.media.strip.parts import Parts, Stripped, left_alone

_HEADER_SIZE = 12
_KEPT = (b"VP8X", b"ICCP", b"ANIM", b"ANMF", b"ALPH", b"VP8 ", b"VP8L")
_NAMES = {b"EXIF": "exif", b"XMP ": "xmp"}
_EXIF_FLAG, _XMP_FLAG = 0x08, 0x04
_FLAGS_AT = 8


def strip_webp(data: bytes | memoryview, orientation: int) -> Stripped:
    chunks = Parts(data)
    exif = b"" if orientation == 1 else b"EXIF" + (26).to_bytes(4, "little") + minimal_exif(orientation)
    has_exif = False
    end = min(len(data), 8 + int.from_bytes(data[4:8], "little"))
    at = _HEADER_SIZE
    while at + 8 <= end:
        start, name = at, bytes(data[at : at + 4])
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if start + 8 + size > end:
            # Decoders differ over what they still find in such a file.
            return left_alone(data)
        at = min(end, start + 8 + size + size % 2)
        if name == b"VP8X":
            chunk = bytearray(data[start:at])
            chunk[_FLAGS_AT] = chunk[_FLAGS_AT] & ~(_EXIF_FLAG | _XMP_FLAG) | (_EXIF_FLAG if exif else 0)
            chunks.put(bytes(chunk))
        elif name in _KEPT:
            chunks.keep(start, at)
        elif name == b"EXIF" and not has_exif and data[start:at] == exif:
            has_exif = True
        else:
            chunks.drop(_NAMES.get(name, "chunk"), at - start)
    chunks.put(exif)
    chunks.drop("tail", len(data) - at)
    stripped = chunks.join()
    if not stripped.removed:
        return stripped
    head = b"RIFF" + (len(stripped.data) + 4).to_bytes(4, "little") + b"WEBP"
    return Stripped(data=head + stripped.data, removed=stripped.removed)
