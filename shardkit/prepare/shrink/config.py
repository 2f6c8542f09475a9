"""What a run of shrink is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.media.decode import DECODER
from shardkit.media.phash import LOOKS
from shardkit.media.shrink import MAX_QUALITY, MIN_QUALITY, SHRINKER
from shardkit.store.units import check_shards

SHRINK_VERSION = 1
"""Part of every recipe: a change of what shrink makes of equal input gets a new number."""
QUALITY = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class ShrinkConfig:
    """Paths, workers and the output say where; everything else is the recipe."""

    input: Path
    output: Path | None
    """None with dry_run."""
    max_side: int
    """Pixels; pictures with a longer side are encoded again, others stay byte for byte."""
    quality: int = QUALITY
    """Of JPEG and lossy WebP."""
    shards: str = "arrow"
    shard_size: int = 256_000_000
    """Payload bytes."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.max_side < 1:
            raise ConfigError("--max-side is under one pixel", hint="write --max-side 1024")
        if not MIN_QUALITY <= self.quality <= MAX_QUALITY:
            raise ConfigError(
                f"--quality {self.quality} is not from {MIN_QUALITY} to {MAX_QUALITY}", hint="write --quality 90"
            )
        check_shards(self.shards, self.shard_size)

    def recipe(self) -> dict[str, Any]:
        """The config as JSON values."""
        return {
            "version": SHRINK_VERSION,
            "max_side": self.max_side,
            "quality": self.quality,
            "shards": self.shards,
            "shard_size": self.shard_size,
            "shrinker": SHRINKER,
            "decoder": DECODER,
            "looks": LOOKS,
        }
