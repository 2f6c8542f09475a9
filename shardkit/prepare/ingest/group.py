"""--group-by: what a split may not divide, as the source declares it."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import metadata as packages
from typing import Any
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList

from shardkit.errors import ConfigError
from shardkit.prepare.ingest.metadata import json_text

_ADDRESS_FIELDS = ("url", "document_url", "page_url", "source_url", "link")


def group_key(field: str, *, source: str) -> Callable[[str, Mapping[str, Any]], str | None]:
    """A function (path of the input, metadata) -> group, for `field` as the user wrote it.

    `@source`, `@path`, `@path:REGEX` (the first capture group, found anywhere in the path) and `@domain` (the registered
    domain of the record's address) are ours; anything else is a field of the metadata, with dots for nested ones.
    A null, empty or blank value is no group.

    Raises:
        ConfigError: for an unknown @name, or a REGEX that does not compile or has no group.
    """
    if field == "@source":
        return lambda _path, _metadata: source
    if field == "@path":
        return lambda path, _metadata: path
    if field == "@domain":
        return lambda _path, metadata: _domain_of(metadata)
    if field.startswith("@path:"):
        pattern = _pattern(field.removeprefix("@path:"))
        return lambda path, _metadata: (found := pattern.search(path)) and _named(found.group(1))
    if field.startswith("@"):
        raise ConfigError(
            f"--group-by {field} is unknown", hint="use a metadata field, @source, @domain, @path or @path:REGEX"
        )
    return lambda _path, metadata: _named(field_of(metadata, field))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ConfigError(f"--group-by @path:{text} is no regular expression ({error})", hint="correct it") from None
    if not pattern.groups:
        raise ConfigError(
            f"--group-by @path:{text} has no capture group", hint="put the part that names the group in parentheses"
        )
    return pattern


def field_of(metadata: Mapping[str, Any], field: str) -> Any:
    """The value of a field of the metadata, with dots for nested ones; None where it is not there."""
    if field in metadata:
        return metadata[field]
    value: Any = metadata
    for part in field.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _named(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json_text(value, Counter())  # counted where the metadata is kept
    return text if text.strip() else None


def _domain_of(metadata: Mapping[str, Any]) -> str | None:
    address = next((metadata[f] for f in _ADDRESS_FIELDS if isinstance(metadata.get(f), str) and metadata[f]), None)
    try:
        host = urlsplit(address).hostname if address else None
    except ValueError:
        return None
    return _registered(host) if host else None


@lru_cache(maxsize=65_536)
def _registered(host: str) -> str:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def suffix_list_version() -> str:
    """Release of the list that @domain goes by: another release may know other registries."""
    return packages.version("publicsuffixlist")
