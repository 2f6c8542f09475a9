"""`shardkit import`: a prepared set as a dataset.

PATHs -> the files of the set, each with its split -> what the rows are -> ingest
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from shardkit.engine import Progress, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.import_ import IMPORTS
from shardkit.prepare.import_.found import Found
from shardkit.prepare.ingest import SOURCES, IngestConfig, IngestResult
from shardkit.prepare.ingest import run as ingest
from shardkit.prepare.ingest.formats.detect import detected
from shardkit.prepare.ingest.listing import list_inputs
from shardkit.prepare.ingest.planning import CONTAINERS
from shardkit.prepare.ingest.sample import Sample, rows_of
from shardkit.prepare.named import check_dump
from shardkit.store.place import keep_apart

FORMATS = ("rows", "caption", "obelics", "chat", "mmc4", "text")
"""What the rows of a set may be: formats of ingest."""
_LOOKED_AT = 200
"""Rows from which the format is told."""
_TARS = "webdataset"


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportConfig:
    kind: str
    """A key of IMPORTS."""
    paths: tuple[Path, ...]
    ingest: Mapping[str, Any] = field(default_factory=dict)
    """Fields of IngestConfig: output, source, licence, fields, ..."""
    format: str | None = None
    """One of FORMATS; None: as the rows show."""


def run(
    config: ImportConfig, on_progress: Progress = silent, on_notice: Callable[[str], None] = lambda _: None
) -> tuple[str, IngestResult]:
    """Import a set; returns the format that its rows were read as, and what ingest answers.

    Raises:
        ConfigError: for an impossible setting.
        SourceError: where a PATH holds no such set or is a dataset, the set is not whole, or too many rows are bad.
        OutputError: as ingest.
    """
    if config.kind not in IMPORTS:
        raise ConfigError(f"nothing is imported from {config.kind!r}", hint=f"use one of: {', '.join(IMPORTS)}")
    if config.format is not None and (config.kind == _TARS or config.format not in FORMATS):
        known = "the tars say what their samples are" if config.kind == _TARS else f"use one of: {', '.join(FORMATS)}"
        raise ConfigError(f"a set of {config.kind} cannot be read as {config.format!r}", hint=known)
    for path in config.paths:
        check_dump(path)
    found = [file for path in config.paths for file in IMPORTS[config.kind](path)]
    root = _root(config.paths)
    output = config.ingest.get("output")
    if output is not None:
        for path in config.paths:
            keep_apart(Path(os.path.abspath(output)), path)
    asked = IngestConfig(
        **{
            "format": config.format or (_TARS if config.kind == _TARS else "rows"),
            "paths": tuple(file.path for file in found),
            "root": root,
            "prepared": config.kind,
            "splits": _splits(found, root),
            **config.ingest,
        }
    )
    if config.format is None and config.kind != _TARS:
        asked = replace(asked, format=_format(asked))
    return asked.format, ingest(asked, on_progress, on_notice)


def _root(paths: tuple[Path, ...]) -> Path:
    """The deepest folder that holds all PATHs."""
    resolved = [os.path.realpath(path) for path in paths]
    return Path(os.path.commonpath([one if os.path.isdir(one) else os.path.dirname(one) for one in resolved]))


def _splits(found: list[Found], root: Path) -> dict[str, str]:
    """Name of each input, as ingest will call it -> its split."""
    names = ((os.path.relpath(os.path.realpath(file.path), root).replace(os.sep, "/"), file.split) for file in found)
    return {name: split for name, split in sorted(names, key=itemgetter(0)) if split is not None}


def _format(asked: IngestConfig) -> str:
    """What the first rows of a set are."""
    errors: list[SourceError] = []
    asked = replace(asked, splits={})
    rows = tuple(islice(_first_rows(asked, errors), _LOOKED_AT))
    try:
        return detected(Sample(names=(), rows=rows, errors=tuple(errors)), asked)
    except SourceError as error:
        if errors:
            raise
        columns = ", ".join(rows[0]) if rows else "none"
        raise SourceError(
            f"what the rows are does not show (columns: {columns[:200]})",
            where=error.where if len(asked.paths) == 1 else str(asked.root),
            hint=f"say it with --as {'|'.join(FORMATS)}, and name columns with --field NAME=COLUMN",
        ) from None


def _first_rows(asked: IngestConfig, errors: list[SourceError]) -> Iterator[dict[str, Any]]:
    containers = SOURCES["rows"].containers
    for kind, file in list_inputs(replace(asked, format="rows"), containers, ()).inputs:
        yield from rows_of(file, CONTAINERS[kind], asked, errors)
