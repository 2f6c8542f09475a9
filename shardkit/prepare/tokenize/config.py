"""What a run of tokenize is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeConfig:
    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    output: Path | None
    """None with dry_run, and where sequences are only shown."""
    tokenizer: Path
    """A tokenizer.json, or the folder that holds one."""
    recipe: str
    """A name of RECIPES, or a TOML file with `name` and settings."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the recipe, before those of its file."""
    chat_template: Path | None = None
    """The file of a chat template, for recipes of dialogues; None is the project's own."""
    max_tokens: int | None = None
    """Longest sequence; None is the recipe's own default."""
    overlong: str = "window"
    """What happens to longer examples: a name of OVERLONG."""
    add_control_tokens: bool = False
    """Append the control tokens that the recipe names and the tokenizer lacks."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False
    """Count everything, write nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason, changes."""
    totals: Mapping[str, int]
    """sequences, tokens, supervised, images, ...: what the sequences hold."""

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "unchanged": self.unchanged,
            **self.counts,
            "sequences": self.totals.get("sequences", 0),
            "tokens": self.totals.get("tokens", 0),
            "supervised_tokens": self.totals.get("supervised", 0),
            "images": self.totals.get("images", 0),
        }
