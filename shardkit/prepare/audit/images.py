"""What the stored bytes of an image say of themselves, beside what its row says."""

from __future__ import annotations

from dataclasses import dataclass

from shardkit.digest import sha256, xxh3
from shardkit.media.decode import decode_rgb
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


def look(data: bytes | memoryview) -> Seen:
    """Digest and decode stored bytes."""
    try:
        pixels, fault = pixel_id(decode_rgb(data)), ""
    except BadMedia as error:
        pixels, fault = None, error.detail
    return Seen(stored_xxh3=xxh3(data), sha256=sha256(data), pixel_id=pixels, fault=fault)


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
