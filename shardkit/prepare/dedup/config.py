"""What a run of dedup is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.dedup import MATCHERS

DEDUP_VERSION = 1
"""Part of every recipe: a change of what dedup makes of equal input gets a new number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupConfig:
    """Paths, workers and the output say where; everything else is the recipe."""

    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    output: Path | None
    """None with dry_run."""
    levels: tuple[str, ...] = tuple(MATCHERS)
    """Keys of MATCHERS, in any order."""
    priority: tuple[str, ...] = ()
    """Sources whose examples are rather kept, the first before the second; others come after."""
    max_removed_per_source: float = 0.5
    """Share of a source, judged from 1,000 rows on."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for level in self.levels:
            if level not in MATCHERS:
                raise ConfigError(
                    f"there is no level {level!r}; there are {', '.join(MATCHERS)}", hint="choose some with --level"
                )
        if not self.levels:
            raise ConfigError("no level is named", hint=f"choose some of {', '.join(MATCHERS)} with --level")
        if not 0 <= self.max_removed_per_source <= 1:
            raise ConfigError(
                f"--max-removed-per-source {self.max_removed_per_source} is no share", hint="give a number from 0 to 1"
            )

    @property
    def ordered_levels(self) -> tuple[str, ...]:
        """From the strictest to the loosest."""
        return tuple(level for level in MATCHERS if level in self.levels)

    def recipe(self) -> dict[str, Any]:
        return {
            "version": DEDUP_VERSION,
            "levels": {level: MATCHERS[level].VERSION for level in self.ordered_levels},
            "priority": list(self.priority),
            "max_removed_per_source": self.max_removed_per_source,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason."""
    report: Mapping[str, Any]
    """by_source, frequent_texts, same_images_other_text: as in the manifest."""
    refused: str | None = None
    """Of a dry run: why the real one would be refused."""

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
            "refused": self.refused,
        }
