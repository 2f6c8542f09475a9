"""What a run of forget is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.result import StageResult
from shardkit.store.units import check_shards

FORGET_VERSION = 1
"""Part of every dataset id: a change of what forget makes of equal input gets a new number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetConfig:
    input: Path
    output: Path | None
    """None with dry_run."""
    assets: tuple[str, ...] = ()
    """Asset ids, or the unique beginnings of some."""
    sources: tuple[str, ...] = ()
    """Names of sources, raw files or rows of them, addresses of pictures or documents."""
    licences: tuple[str, ...] = ()
    also: tuple[Path, ...] = ()
    """Folders in which datasets are looked for that still hold the bytes."""
    shards: str = "arrow"
    shard_size: int = 256_000_000
    """Payload bytes."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if not (self.assets or self.sources or self.licences):
            raise ConfigError(
                "nothing is named that is to be forgotten", hint="name it with --asset, --source or --licence"
            )
        if any(not text.strip() for text in (*self.assets, *self.sources, *self.licences)):
            raise ConfigError("an empty name forgets nothing", hint="name it with --asset, --source or --licence")
        check_shards(self.shards, self.shard_size)

    def recipe(self, assets: tuple[str, ...]) -> dict[str, Any]:
        """The config as JSON values.

        Args:
            assets: the whole ids, ascending.
        """
        return {
            "version": FORGET_VERSION,
            "assets": list(assets),
            "sources": sorted(set(self.sources)),
            "licences": sorted(set(self.licences)),
            "shards": self.shards,
            "shard_size": self.shard_size,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetResult(StageResult):
    """`report`: assets, files whose bytes are gone; origins, rows of provenance that are gone; elsewhere, files that stay,
    because they came from another place too."""

    proof: Mapping[str, int] | None
    """What was read again and searched; None after a dry run."""
    also: tuple[Mapping[str, Any], ...]
    """Datasets that still hold the bytes."""

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {**StageResult.to_json(self), "proof": self.proof, "also": list(self.also)}
