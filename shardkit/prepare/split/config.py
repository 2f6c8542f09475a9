"""What a run of split is asked for, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.dedup import MATCHERS, near_text
from shardkit.prepare.ingest.group import suffix_list_version
from shardkit.prepare.result import StageResult
from shardkit.prepare.split.declared import check_group_by
from shardkit.prepare.split.near import NearRules
from shardkit.prepare.split.times import Cutoffs
from shardkit.records.counts import exact
from shardkit.store.units import check_shards

SPLIT_VERSION = 2
"""Part of every recipe: a change of what split makes of equal input gets a new number."""
UNIT_SIZE = 256_000_000
EDGES = ("near", "exact")
MISSING_GROUP = ("own", "fail")
MISSING_PARENT = ("fail", "own")
MISSING_TIME = ("exclude", "fail")
EARLIEST = "train"
"""With --split-by-time: the split before the first cutoff."""
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
    ratios: Ratios | None = None
    """None: as the older split, or by time."""
    time_field: str | None = None
    """A metadata field; the splits are parted by `cutoffs` instead of shares."""
    cutoffs: Cutoffs = ()
    group_by: str | None = None
    """A metadata field, @source, @domain, @path or @path:REGEX; None: as the older split, or the group that ingest gave."""
    edges: str = "near"
    """near: near pictures and texts are tied, as dedup found them, else compared here | exact: only equal ones are"""
    preset: str | None = None
    """Key of near_text.PRESETS: what a near text is; None: as dedup or the older split took it, else web."""
    like: Path | None = None
    """An older split: what it placed stays where it is."""
    parents: tuple[Path, ...] = ()
    """Datasets that hold what rows were made from; they tie, and are not split."""
    parent_field: str | None = None
    """A metadata field with the example id, or ids, of what a row was made from; beside tables/examples.parent_id."""
    salt: str | None = None
    """Another salt is another split of the same data; None: as the older split, or empty."""
    exact: bool = False
    """Fill the shares greedily, however many groups there are."""
    on_missing_group: str = "own"
    """own: an example without a key is a group of its own | fail"""
    on_missing_parent: str = "fail"
    """own: examples of a parent that is nowhere are tied to one another alone | fail"""
    on_missing_time: str = "exclude"
    """exclude: an example without a time that can be read is left out | fail"""
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
        if self.ratios is not None:
            _check_ratios(self.ratios)
        _known("--edges", self.edges, EDGES)
        _known("--preset", self.preset or "web", near_text.PRESETS)
        _known("--on-missing-group", self.on_missing_group, MISSING_GROUP)
        _known("--on-missing-parent", self.on_missing_parent, MISSING_PARENT)
        _known("--on-missing-time", self.on_missing_time, MISSING_TIME)
        check_shards(self.shards, self.shard_size)
        self._check_division()
        if self.unit_size < 1:
            raise ConfigError("a unit of no bytes", hint="raise --unit-size")
        if self.frequent_asset_limit < 1 or not 0 < self.max_group_share <= 1:
            raise ConfigError(
                "a limit is out of its range", hint="--frequent-asset-limit from 1 on, --max-group-share over 0 to 1"
            )

    def _check_division(self) -> None:
        """By shares, by time, or as the older split."""
        if self.ratios is None and self.time_field is None and self.like is None:
            raise ConfigError("nothing says how to divide", hint=f"{_HINT}, or --split-by-time FIELD --cutoff DATE")
        if self.time_field is not None and (self.ratios is not None or self.exact):
            raise ConfigError(
                "--split-by-time divides by cutoffs, --ratios and --exact by shares", hint="leave one of the two out"
            )
        if (self.time_field is not None) != bool(self.cutoffs):
            raise ConfigError(
                "--split-by-time FIELD and --cutoff DATE belong together",
                hint="write --split-by-time published --cutoff 2021-06-30",
            )
        for name, _ in self.cutoffs:
            if not _NAME.fullmatch(name) or name in ("all", EARLIEST):
                raise ConfigError(
                    f"--cutoff: {name!r} cannot begin a split; what is before the first cutoff is {EARLIEST}",
                    hint="write --cutoff val=2021-01-01 --cutoff test=2021-07-01",
                )

    def completed(self, before: Mapping[str, Any] | None) -> SplitConfig:
        """With what the older split did, where nothing else is asked for.

        Args:
            before: its recipe.

        Raises:
            ConfigError: where groups or times are asked for that are not those of the older split.
        """
        if before is None:
            return replace(self, salt=self.salt or "")
        if self.group_by is not None and self.group_by != before["group_by"]:
            raise ConfigError(
                f"the older split was grouped by {before['group_by'] or 'what ingest gave'}, this one by {self.group_by}",
                where=str(self.like),
                hint="leave --group-by out: keys of another kind would place everything anew",
            )
        time = before.get("time")
        if time is not None and (self.ratios is not None or self.time_field not in (None, time["field"])):
            raise ConfigError(
                f"the older split was by the time {time['field']}",
                where=str(self.like),
                hint="leave --ratios out, or name the same field with --split-by-time",
            )
        by_time = time is not None and self.time_field is None
        return replace(
            self,
            group_by=before["group_by"],
            salt=before["salt"] if self.salt is None else self.salt,
            ratios=_pairs(before["ratios"])
            if self.ratios is None and self.time_field is None and not by_time
            else self.ratios,
            time_field=time["field"] if time is not None and by_time else self.time_field,
            cutoffs=_pairs(time["cutoffs"]) if time is not None and by_time else self.cutoffs,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the splits."""
        if self.time_field is not None:
            return (EARLIEST, *(name for name, _ in self.cutoffs))
        return tuple(name for name, _ in self.ratios or ())

    @property
    def shares(self) -> dict[str, Fraction]:
        """Split -> share asked, exactly as written; empty where the splits are parted by time."""
        return {name: exact(share) for name, share in self.ratios or ()}

    def recipe(self, rules: NearRules, like: str | None = None, parents: Sequence[str] = ()) -> dict[str, Any]:
        """The config as JSON values.

        Args:
            rules: what is near.
            like: dataset id of the older split.
            parents: dataset ids.
        """
        time = {"field": self.time_field, "cutoffs": [list(pair) for pair in self.cutoffs]}
        return {
            "version": SPLIT_VERSION,
            "ratios": [list(pair) for pair in self.ratios or ()],
            "time": time if self.time_field is not None else None,
            "group_by": self.group_by,
            "edges": self.edges,
            "near": rules.recipe(),
            "near_found_by": rules.found_by.id if rules.found_by is not None else None,
            "like": like,
            "parents": sorted(parents),
            "parent_field": self.parent_field,
            "salt": self.salt or "",
            "exact": self.exact,
            "on_missing_group": self.on_missing_group,
            "on_missing_parent": self.on_missing_parent,
            "on_missing_time": self.on_missing_time,
            "frequent_asset_limit": self.frequent_asset_limit,
            "max_group_share": self.max_group_share,
            "allow_empty": self.allow_empty,
            "shards": self.shards,
            "shard_size": self.shard_size,
            "unit_size": self.unit_size,
            "matchers": {level: matcher.VERSION for level, matcher in MATCHERS.items()},
            "public_suffix_list": suffix_list_version() if self.group_by == "@domain" else None,
        }


def _pairs(stored: Sequence[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in stored)


def _known(option: str, value: str, there: Iterable[str]) -> None:
    if value not in there:
        raise ConfigError(f"{option} {value!r} is none of {', '.join(there)}", hint="choose one")


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
            positive = exact(share) > 0
        except (ValueError, ZeroDivisionError):
            positive = False
        if not positive:
            raise ConfigError(f"--ratios: {name}={share} is no share over 0", hint=_HINT)
    if len(set(names)) < len(names):
        raise ConfigError("--ratios names a split twice", hint=_HINT)
    total = sum((exact(share) for _, share in ratios), Fraction(0))
    if abs(total - 1) > Fraction(1, 1_000_000):
        raise ConfigError(f"--ratios add up to {float(total):g}, not to 1", hint=_HINT)


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitResult(StageResult):
    """`report`: splits, by_source, by_language, groups, boilerplate, conflicts, notes, ..."""

    names: tuple[str, ...]
    """Of the splits, in the order asked."""
