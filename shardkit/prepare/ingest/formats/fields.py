"""Fields of a row by name, with the reason where one is not as it must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shardkit.prepare.ingest.reasons import Bad, plain


def found(row: Mapping[str, Any]) -> str:
    """The names of the fields that are there, for a message."""
    return plain(", ".join(map(str, row)) or "none", 80)


ANNOTATORS = ("annotator", "model", "generator")
"""Fields of a row or entry that say who or what wrote its text (a person, a tool, model@revision), the first that is there."""


def annotator_of(row: Mapping[str, Any], names: Iterable[str] = ANNOTATORS) -> str | None:
    """Who wrote the text of a row, by its own word; the field stays metadata as well."""
    found = (row.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value.strip()), None)


def text_field(row: Mapping[str, Any], name: str, *, blank: bool = False) -> str:
    """The text in field `name`; an empty or blank one only with `blank`.

    Raises:
        Bad: each case under its own reason.
    """
    if name not in row:
        raise Bad("missing_field", f"field {plain(name)} is missing (found: {found(row)})")
    value = row[name]
    if value is None:
        raise Bad("null_text", f"field {plain(name)} is null")
    if not isinstance(value, str):
        raise Bad("wrong_type", f"field {plain(name)} is of type {type(value).__name__}, not a text")
    if not blank and not value.strip():
        raise Bad("empty_text", f"field {plain(name)} is {'blank' if value else 'empty'}")
    return value
