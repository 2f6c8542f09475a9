"""What a run of select is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SELECT_VERSION = 1
"""Part of every recipe: a change of what select makes of equal input gets a new number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectConfig:
    """Paths, workers and the output say where; the condition is the recipe."""

    input: Path
    output: Path | None
    """None with dry_run."""
    where: str
    """The condition; docs/select.md has the language."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason."""
    report: Mapping[str, Any]
    """As in the manifest: where, conditions, by_source."""

    @property
    def dry_run(self) -> bool:
        return self.dataset_id is None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "unchanged": self.unchanged,
            **self.counts,
            **self.report,
        }
