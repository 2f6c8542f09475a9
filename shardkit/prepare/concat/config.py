"""What a run of concat is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONCAT_VERSION = 1
"""Part of every dataset id: a change of what concat makes of equal inputs gets a new number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcatConfig:
    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    output: Path | None
    """None with dry_run."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcatResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason."""
    totals: Mapping[str, Mapping[str, Mapping[str, int]]]
    """by_split and by_source, as in the manifest."""
    num_shards: int
    """Of examples and of sequences; all of them lie in the inputs."""

    @property
    def dry_run(self) -> bool:
        return self.dataset_id is None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "unchanged": self.unchanged,
            **self.counts,
            "shards": self.num_shards,
            **self.totals,
        }
