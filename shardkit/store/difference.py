"""What differs between two recipes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def first_difference(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> str | None:
    """`image.side was 2, now 3`: the first setting that differs, with the names that lead to it; None where none does."""
    for key in sorted({*before, *now}):
        old, new = before.get(key), now.get(key)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            inside = first_difference(old, new, f"{within}{key}.")
            if inside is not None:
                return inside
        return f"{within}{key} was {old!r}, now {new!r}"
    return None
