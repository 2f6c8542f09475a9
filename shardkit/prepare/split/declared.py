"""The key that a source declares for an example: what --group-by names, or the group that ingest gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from shardkit.prepare.dedup.facts import Facts
from shardkit.prepare.ingest.group import group_key

Key = Callable[[Facts], str | None]


def check_group_by(group_by: str | None) -> None:
    """Refuse a key that no row can have.

    Raises:
        ConfigError: for an unknown @name, or a REGEX that does not compile or has no group.
    """
    if group_by is not None:
        group_key(group_by, source="")


def by_path(group_by: str | None) -> bool:
    """Whether the key comes from the place of the raw row, which stands in tables/examples alone."""
    return group_by is not None and (group_by == "@path" or group_by.startswith("@path:"))


def by_field(group_by: str | None) -> bool:
    """Whether the key is a field of the metadata."""
    return group_by is not None and not group_by.startswith("@")


def fact_key(group_by: str | None) -> Key:
    """Facts of an example -> its declared key, for every --group-by but @path.

    A group that is the id of one of the example's images is what ingest gives captions by default; no source declared
    it, and shared images are tied anyway.
    """
    if group_by is None:
        return lambda facts: facts.group if facts.group and facts.group not in facts.assets else None
    if group_by == "@source":
        return lambda facts: facts.source
    key = group_key(group_by, source="")
    return lambda facts: key("", _object(facts.metadata))


def path_key(group_by: str) -> Callable[[str, str], str | None]:
    """(input, position) -> declared key. A REGEX that the input's path does not hold is looked for in the position,
    which is the member's name where the input is a tar."""
    key = group_key(group_by, source="")
    if group_by == "@path":
        return lambda name, _position: key(name, {})
    return lambda name, position: key(name, {}) or key(position, {})


def _object(metadata: str) -> Mapping[str, Any]:
    value = orjson.loads(metadata)
    return value if isinstance(value, dict) else {}
