"""What Hugging Face `datasets` says of the columns of its Arrow and Parquet files, beside their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

_KEY = b"huggingface"


def class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Column -> the names of its classes, for columns that hold numbers of classes; none where the schema does not say."""
    try:
        features = orjson.loads((schema.metadata or {})[_KEY])["info"]["features"]
    except (KeyError, TypeError, orjson.JSONDecodeError):
        return {}
    if not isinstance(features, Mapping):
        return {}
    found = {}
    for name, feature in features.items():
        names = feature.get("names") if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" else None
        if name in schema.names and isinstance(names, list) and all(isinstance(one, str) for one in names):
            found[name] = names
    return found


def named(value: Any, names: list[str]) -> Any:
    """The name of a class; a number that has none stays."""
    return names[value] if type(value) is int and 0 <= value < len(names) else value
