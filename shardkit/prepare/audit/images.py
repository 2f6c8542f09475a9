"""What the stored bytes of an image say of themselves, beside what its row says."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.digest import sha256, xxh3
from shardkit.media.decode import decode_rgb
from shardkit.media.phash import Looks, looks
from shardkit.media.pixels import pixel_id
from shardkit.media.reasons import BadMedia


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    stored_xxh3: str
    sha256: str
    pixel_id: str | None
    """None where the bytes do not decode."""
    fault: str
    """Why they do not; empty where they do."""
    looks: Looks | None
    """None where nobody asked, and where the bytes do not decode."""


def look(data: bytes | memoryview, *, with_looks: bool = False) -> Seen:
    """Digest and decode stored bytes.

    Args:
        with_looks: compute perceptual hashes and class, too.
    """
    pixels, seen, fault = None, None, ""
    try:
        picture = decode_rgb(data)
        pixels = pixel_id(picture)
        seen = looks(picture) if with_looks else None
    except BadMedia as error:
        fault = error.detail
    return Seen(stored_xxh3=xxh3(data), sha256=sha256(data), pixel_id=pixels, fault=fault, looks=seen)


def differences(seen: Seen, *, stored_xxh3: str, pixel: str) -> list[str]:
    """In words, what a row says of an image and its bytes do not."""
    found = []
    if seen.stored_xxh3 != stored_xxh3:
        found.append(f"stored digest is {seen.stored_xxh3}, the row says {stored_xxh3}")
    if seen.pixel_id is None:
        found.append(f"the image does not decode: {seen.fault}")
    elif seen.pixel_id != pixel:
        found.append(f"pixel id is {seen.pixel_id}, the row says {pixel}")
    return found
