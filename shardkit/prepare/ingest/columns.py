"""Columns and fields by the part they play: --field first, then the headers that dumps use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.units import InputFile

Required = tuple[tuple[str, tuple[str, ...]], ...]
"""(part that a column plays, headers it is known by)"""


def column(names: Iterable[str], wanted: str, known: tuple[str, ...], config: IngestConfig) -> str | None:
    """The column of `names` that plays the part `wanted`: the one of --field, else the first known header."""
    given = config.fields.get(wanted) or (config.fields.get("text") if wanted == "caption" else None)
    if given is not None:
        return given if given in names else None
    return _known_column(tuple(names), known)


@lru_cache(maxsize=4096)
def _known_column(names: tuple[str, ...], known: tuple[str, ...]) -> str | None:
    """Most records of a dump have the same names."""
    folded = {name.casefold(): name for name in reversed(names)}
    return next((folded[header] for header in known if header in folded), None)


def check_fields(config: IngestConfig, allowed: tuple[str, ...]) -> None:
    """Refuse --field names that the format does not have.

    Raises:
        ConfigError: with the names it has.
    """
    for name in config.fields:
        if name not in allowed:
            raise ConfigError(
                f"--field {name}=... : {config.format} has no field {name!r}",
                hint=f"use one of: {', '.join(allowed) or 'none'}",
            )


def check_columns(file: InputFile, names: tuple[str, ...], required: Required, config: IngestConfig) -> None:
    """Refuse a table without a column that the format needs, before a row of it is read.

    Raises:
        SourceError: with the columns that are there.
    """
    for wanted, known in required if names else ():
        if column(names, wanted, known, config) is None:
            asked = config.fields.get(wanted)
            what = f"no column {asked!r} for {wanted}" if asked else f"no column is known as {wanted}"
            raise SourceError(
                f"{what} (found: {plain(', '.join(names), 120)})",
                where=file.name,
                hint=f"name the column with --field {wanted}=COLUMN",
            )
