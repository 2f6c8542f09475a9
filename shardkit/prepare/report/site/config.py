"""What a report is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError

REPORT_VERSION = 1
"""Of the pages: a folder of another version is written anew."""
SHOWN = 50
"""Clusters, pairs, exclusions and leaks of each page or reason."""
SIDE = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportConfig:
    dataset: Path
    output: Path
    shown: int = SHOWN
    side: int = SIDE
    """Of thumbnails, in pixels; 0 for none."""
    audit: bool = True
    """Look for leaks between splits, which decodes every picture."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.shown < 1:
            raise ConfigError(f"--show {self.shown} shows nothing", hint="give 1 or more")
        if not (self.side == 0 or 16 <= self.side <= 512):
            raise ConfigError(
                f"--thumbnails {self.side} is neither 0 nor from 16 to 512",
                hint="give the longer side in pixels, 0 for none",
            )

    def made_from(self, dataset_id: str) -> dict[str, Any]:
        return {
            "report": REPORT_VERSION,
            "dataset": dataset_id,
            "shown": self.shown,
            "side": self.side,
            "audit": self.audit,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportResult:
    path: Path
    dataset_id: str
    pages: Mapping[str, int]
    """Name of each page -> how many things it shows."""
    leaks: int | None
    """None where nobody looked."""
    unchanged: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "report": str(self.path),
            "id": self.dataset_id,
            "pages": dict(self.pages),
            "leaks": self.leaks,
            "unchanged": self.unchanged,
        }
