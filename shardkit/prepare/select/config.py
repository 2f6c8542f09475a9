"""What a run of select is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
