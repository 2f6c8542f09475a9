"""What a run of concat is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
