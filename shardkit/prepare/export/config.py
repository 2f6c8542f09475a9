"""What a run of export is asked for, and what it answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError

EXPORT_VERSION = 1
"""A change of what export makes of an equal dataset gets a new number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What only its owner knows of a dataset: for the card and the Croissant file."""

    name: str | None = None
    """None: the names of the sources."""
    url: str | None = None
    creators: tuple[str, ...] = ()
    published: str | None = None
    """A date, YYYY-MM-DD."""
    citation: str | None = None

    def __post_init__(self) -> None:
        if self.published is not None:
            try:
                dt.date.fromisoformat(self.published)
            except ValueError:
                raise ConfigError(f"--published {self.published!r} is no date", hint="write it as YYYY-MM-DD") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportConfig:
    """Where, and what: `made_from` is what an export that is there already is compared with."""

    dataset: Path
    output: Path | None
    """None with dry_run."""
    format: str
    """A key of EXPORTS."""
    splits: tuple[str, ...] = ()
    """Those to export; empty for all."""
    shard_size: int = 256_000_000
    """Payload bytes of a file."""
    about: About = field(default_factory=About)
    bases: tuple[Path, ...] = ()
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.shard_size < 1:
            raise ConfigError(
                f"--shard-size is {self.shard_size}", hint="give a number of bytes above 0, for instance 256000000"
            )

    def made_from(self, dataset_id: str, versions: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "dataset": dataset_id,
            "format": self.format,
            "splits": list(self.splits),
            "shard_size": self.shard_size,
            "about": asdict(self.about),
            "version": EXPORT_VERSION,
            **versions,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    path: Path | None
    """None with --dry-run."""
    dataset_id: str
    """Of the dataset that was exported."""
    format: str
    counts: Mapping[str, Any]
    """examples, images, pixels, image_bytes, other_ids, by_split, by_source, licences, ..."""
    num_files: int
    """Data files; pictures beside them are not counted."""
    num_bytes: int
    """Of these files."""
    unchanged: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "export": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "format": self.format,
            "unchanged": self.unchanged,
            "files": self.num_files,
            "bytes": self.num_bytes,
            **self.counts,
        }
