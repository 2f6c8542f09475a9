"""What may stand in an images field: a path, an address, a data: URI, base64, bytes, or an object of path and bytes."""

from __future__ import annotations

import re
from typing import Any

from shardkit.prepare.ingest.draft import ImageRef, base_name
from shardkit.prepare.ingest.reader import data_uri, from_base64
from shardkit.prepare.ingest.reasons import Bad, plain

_BASE64 = re.compile(
    r"(?:[/_]9j[/_]|iVBORw0KGgo|R0lGOD[dl]|UklGR|SUkq|TU0AKg|Qk[0-3])[A-Za-z0-9+/_\r\n-]{56,}={0,2}\s*\Z"
)
"""JPEG, PNG, GIF, RIFF (WebP), TIFF of both byte orders and BMP as base64. No path of this length is without a dot."""


def image_ref(value: Any) -> ImageRef:
    """The image that one entry names.

    A path beside bytes is only a name. A path in an object without bytes, as another machine left it in a table of
    image bytes, is opened like any other path: inside the roots or not at all.

    Raises:
        Bad: where it names none.
    """
    if value is None:
        raise Bad("no_image", "the image entry is null")
    if isinstance(value, str):
        if not value.strip():
            raise Bad("no_image", "the image entry is an empty text")
        return _from_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return ImageRef(data=bytes(value))
    if isinstance(value, dict):
        return _from_object(value)
    raise Bad("image_value", f"an image entry is of type {type(value).__name__}: {plain(str(value), 40)}")


def _from_text(text: str) -> ImageRef:
    if text.startswith("data:"):
        return ImageRef(data=data_uri(text))
    if _BASE64.match(text) is not None:
        return ImageRef(data=from_base64("".join(text.split()), text))
    return ImageRef(path=text, name=base_name(text), origin=text if "://" in text else None)


def _from_object(value: dict[str, Any]) -> ImageRef:
    path = value.get("path")
    data = value.get("bytes")
    name = base_name(path) if isinstance(path, str) else None
    if isinstance(data, str):
        data = from_base64(data, data)
    if isinstance(data, bytes) and data:
        return ImageRef(data=data, name=name)
    if data is None and isinstance(path, str) and path.strip():
        return ImageRef(path=path, name=name)
    known = ", ".join(sorted(value)) or "none"
    raise Bad("no_image", f"the image object has neither bytes nor a usable path (fields: {plain(known, 40)})")
