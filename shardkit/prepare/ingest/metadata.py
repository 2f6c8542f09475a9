"""The other fields of a record, as JSON that is the same for equal values."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardkit.digest import canonical_json
from shardkit.prepare.ingest.reasons import Bad, plain

_EXIF_FIELDS = frozenset({"exif"})
"""Fields in which downloaders keep the EXIF of a picture as text: place, device and owner among it."""


def encoded(metadata: Mapping[str, Any], changes: Counter[str], *, keep_private: bool) -> str:
    """Canonical JSON of `metadata`; what JSON cannot hold is put into words and counted in `changes`.

    Raises:
        Bad: where even that is impossible.
    """
    kept = {}
    for key, value in metadata.items():
        if key.lower() in _EXIF_FIELDS and not keep_private:
            changes["metadata_exif_removed"] += 1
        else:
            kept[key] = value
    try:
        text = canonical_json(kept)
        if b"null" not in text or not _has_nan(kept):
            return text.decode()
    except TypeError:
        pass  # values of a table that JSON has no type for
    return _worded(kept, changes)


def json_text(value: Any, changes: Counter[str]) -> str:
    """Canonical JSON of one value; what JSON cannot hold is put into words and counted in `changes`.

    Raises:
        Bad: where even that is impossible.
    """
    try:
        return canonical_json(value).decode()
    except TypeError:
        return _worded(value, changes)


def _worded(value: Any, changes: Counter[str]) -> str:
    try:
        return canonical_json(_plain(value, changes)).decode()
    except TypeError as error:
        raise Bad("wrong_type", f"a field cannot be kept as JSON: {plain(str(error))}") from None


def _has_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_nan, value.values()))
    return isinstance(value, list) and any(map(_has_nan, value))


def _plain(value: Any, changes: Counter[str]) -> Any:
    """`value` in the types of JSON: times as ISO text, decimals as digits, bytes as base64, NaN as null."""
    if isinstance(value, float) and not math.isfinite(value):
        changes["non_finite_as_null"] += 1
        return None
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta | decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        changes["bytes_as_base64"] += 1
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(inner, changes) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, changes) for inner in value]
    return value
