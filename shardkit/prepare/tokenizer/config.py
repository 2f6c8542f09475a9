"""What training and measuring a tokenizer are asked for, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.prepare.tokenizer.measured import Measured


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    output: Path | None
    """None with dry_run."""
    vocab_size: int = 6400
    """Entries, control tokens and the 256 bytes included."""
    control_tokens: Path | None = None
    """A TOML or JSON file; None is the list of 36."""
    pattern: str = "qwen2"
    """Where texts are cut: a name of PATTERNS."""
    chat_template: Path | None = None
    """A jinja2 file or a tokenizer_config.json; None is the package's, where the control tokens have its marks."""
    split: str | None = None
    """None is `train` where the inputs are split, everything where they never were."""
    max_bytes: int = 20_000_000
    """Text to learn from, in bytes. Of more text a share of the examples is drawn."""
    bases: tuple[Path, ...] = ()
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    path: Path | None
    digest: str | None
    """Of the tokenizer; None after a dry run."""
    unchanged: bool
    vocab_size: int | None
    """Entries that it has: fewer than asked for where the text ran out of pairs. None after a dry run."""
    text: Mapping[str, int]
    """examples and bytes read, and of how many."""
    measured: Mapping[str, Any] | None
    """Characters and tokens by script, on the text that it learnt from; None after a dry run."""
    has_template: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "tokenizer": None if self.path is None else str(self.path),
            "digest": self.digest,
            "unchanged": self.unchanged,
            "vocab_size": self.vocab_size,
            "chat_template": self.has_template,
            "text": dict(self.text),
            "measured": self.measured,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportConfig:
    tokenizer: Path
    inputs: tuple[Path, ...]
    against: Path | None = None
    """Another tokenizer, to compare with."""
    split: str | None = None
    """None is everything."""
    bases: tuple[Path, ...] = ()
    workers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a tokenizer makes of texts."""

    tokenizer: Path
    digest: str
    vocab_size: int
    num_controls: int
    lossless: bool
    measured: Measured
    unused: tuple[str, ...]
    """Entries that no text was encoded to, by id; control tokens are not counted among them."""
    against: Path | None = None
    other: Measured | None = None
    shared: int = 0
    """Entries that both vocabularies have, control tokens left out."""
    num_other: int = 0
    """Entries of the other, control tokens left out."""

    @property
    def num_entries(self) -> int:
        """Entries that a text can be encoded to."""
        return self.measured.num_entries

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "tokenizer": str(self.tokenizer),
            "digest": self.digest,
            "vocab_size": self.vocab_size,
            "control_tokens": self.num_controls,
            "lossless": self.lossless,
            **self.measured.to_json(),
            "unused_tokens": len(self.unused),
            "unused": list(self.unused),
            "against": None,
        }
        if self.other is not None:
            union = self.num_entries + self.num_other - self.shared
            found["against"] = {
                "tokenizer": str(self.against),
                **self.other.to_json(),
                "entries": self.num_other,
                "shared_entries": self.shared,
                "overlap": round(self.shared / union, 4) if union else None,
            }
        return found
