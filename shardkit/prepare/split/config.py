"""What a run of split is asked for, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.ingest.group import suffix_list_version
from shardkit.prepare.split.declared import check_group_by
from shardkit.store.units import SHARD_FORMATS

SPLIT_VERSION = 1
"""Part of every recipe: a change of what split makes of equal input gets a new number."""
UNIT_SIZE = 256_000_000
MISSING_GROUP = ("own", "fail")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HINT = "write --ratios train=0.9,val=0.05,test=0.05"

Ratios = tuple[tuple[str, str], ...]
"""(split, share as written), in the order asked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitConfig:
    """Paths, workers and the output say where; everything else is the recipe."""

    input: Path
    output: Path | None
    """None with dry_run."""
    ratios: Ratios
    group_by: str | None = None
    """A metadata field, @source, @domain, @path or @path:REGEX; None: the group that ingest gave."""
    like: Path | None = None
    """An older split: what it placed stays where it is."""
    salt: str = ""
    """Another salt is another split of the same data."""
    on_missing_group: str = "own"
    """own: an example without a key is a group of its own | fail"""
    frequent_asset_limit: int = 20
    """An image or text in more declared groups than that ties nothing."""
    max_group_share: float = 0.05
    """Of all examples; over it a component that joins declared groups stops the run, from 1,000 examples on."""
    allow_empty: bool = False
    shards: str = "arrow"
    shard_size: int = 256_000_000
    """Payload bytes."""
    unit_size: int = UNIT_SIZE
    """Payload bytes."""
    bases: tuple[Path, ...] = ()
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_group_by(self.group_by)
        _check_ratios(self.ratios)
        if self.on_missing_group not in MISSING_GROUP:
            raise ConfigError(
                f"--on-missing-group {self.on_missing_group!r} is none of {', '.join(MISSING_GROUP)}", hint="choose one"
            )
        if self.shards not in SHARD_FORMATS:
            raise ConfigError(f"--shards {self.shards!r} is none of {', '.join(SHARD_FORMATS)}", hint="choose one")
        if min(self.shard_size, self.unit_size) < 1:
            raise ConfigError("a shard or unit of no bytes", hint="raise --shard-size and --unit-size")
        if self.frequent_asset_limit < 1 or not 0 < self.max_group_share <= 1:
            raise ConfigError(
                "a limit is out of its range", hint="--frequent-asset-limit from 1 on, --max-group-share over 0 to 1"
            )

    @property
    def shares(self) -> dict[str, Fraction]:
        """Split -> share asked, exactly as written."""
        return {name: Fraction(share) for name, share in self.ratios}

    def recipe(self, like: str | None) -> dict[str, Any]:
        """The config as JSON values.

        Args:
            like: dataset id of the older split.
        """
        return {
            "version": SPLIT_VERSION,
            "ratios": [list(pair) for pair in self.ratios],
            "group_by": self.group_by,
            "like": like,
            "salt": self.salt,
            "on_missing_group": self.on_missing_group,
            "frequent_asset_limit": self.frequent_asset_limit,
            "max_group_share": self.max_group_share,
            "allow_empty": self.allow_empty,
            "shards": self.shards,
            "shard_size": self.shard_size,
            "unit_size": self.unit_size,
            "matchers": {level: matcher.VERSION for level, matcher in MATCHERS.items()},
            "public_suffix_list": suffix_list_version() if self.group_by == "@domain" else None,
        }


def parse_ratios(text: str) -> Ratios:
    """`train=0.9,val=0.05,test=0.05` as pairs.

    Raises:
        ConfigError: where a part is not NAME=SHARE.
    """
    pairs = []
    for part in text.split(","):
        name, equals, share = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ConfigError(f"--ratios: {part.strip()!r} is not NAME=SHARE", hint=_HINT)
        pairs.append((name, share))
    return tuple(pairs)


def _check_ratios(ratios: Ratios) -> None:
    names = [name for name, _ in ratios]
    for name, share in ratios:
        if not _NAME.fullmatch(name) or name == "all":
            raise ConfigError(f"--ratios: {name!r} cannot be the name of a split", hint=_HINT)
        try:
            positive = Fraction(share) > 0
        except (ValueError, ZeroDivisionError):
            positive = False
        if not positive:
            raise ConfigError(f"--ratios: {name}={share} is no share over 0", hint=_HINT)
    if len(set(names)) < len(names):
        raise ConfigError("--ratios names a split twice", hint=_HINT)
    total = sum((Fraction(share) for _, share in ratios), Fraction(0))
    if abs(total - 1) > Fraction(1, 1_000_000):
        raise ConfigError(f"--ratios add up to {float(total):g}, not to 1", hint=_HINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitResult:
    path: Path | None
    dataset_id: str | None
    """None after a dry run."""
    unchanged: bool
    counts: Mapping[str, Any]
    """In examples: read, kept, excluded, excluded_by_reason."""
    report: Mapping[str, Any]
    """As in the manifest: splits, by_source, groups, boilerplate, conflicts, notes."""

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
