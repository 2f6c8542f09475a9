"""What an audit is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError, IntegrityError, LeakError, ShardkitError, guess
from shardkit.prepare.dedup.levels import LEVELS
from shardkit.prepare.split.declared import check_group_by
from shardkit.store.manifest_file import MANIFEST

FAULTS_SHOWN = 10
LISTED = 20
"""Leaks of each kind that are shown with their rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    dataset: Path
    levels: tuple[str, ...] = ()
    """Some of LEVELS, in any order; none leaves it to what the split recorded. Equality is looked at always."""
    group_by: str | None = None
    """A declared key that is looked at beside the one that the split recorded."""
    embeddings: tuple[Path, ...] = ()
    """Files with vectors of examples or images; they switch the level semantic on."""
    embedding_column: str | None = None
    """The column of the vectors, where there are several."""
    embedding_field: str | None = None
    """A metadata field that holds the vectors of examples; switches the level semantic on, too."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    listed: int = LISTED
    workers: int = 1

    def __post_init__(self) -> None:
        check_group_by(self.group_by)
        for level in self.levels:
            if level not in LEVELS:
                raise ConfigError(
                    f"there is no level {level!r}; there are {', '.join(LEVELS)}",
                    hint=f"choose with --level{guess(level, LEVELS)}",
                )
        if "semantic" in self.levels and not (self.embeddings or self.embedding_field):
            raise ConfigError(
                "the level semantic compares vectors, and none are given",
                hint="name their files with --embeddings, or the metadata field that holds them with --embedding-field",
            )
        if self.listed < 1:
            raise ConfigError(f"--show {self.listed} shows nothing of a leak", hint="give 1 or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditResult:
    path: Path
    splits: tuple[str, ...]
    """One name, or none: the dataset was never split, and there is nothing to audit."""
    examples: int
    sequences: int
    leaks: Mapping[str, int]
    """Kind -> number of values on two sides; of near kinds, of pairs. What was not looked at is not here."""
    permitted: Mapping[str, int]
    """Kind -> the same of boilerplate."""
    evidence: tuple[Mapping[str, Any], ...]
    boilerplate: tuple[Mapping[str, Any], ...]
    """Evidence of what is permitted."""
    faults: tuple[str, ...]
    """Where rows and their bytes differ."""
    identity: str
    """What is wrong with the manifest itself; empty where it is whole."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """By which matchers and thresholds near ones were looked for, and which key was declared."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Near level -> why it was not looked at."""
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> ShardkitError | None:
        """LeakError where something leaks, else IntegrityError where a digest does not fit, else None."""
        if any(self.leaks.values()):
            counts = ", ".join(f"{count} of kind {kind}" for kind, count in self.leaks.items() if count)
            first = self.evidence[0]
            places = " and ".join(f"{split} ({side['rows'][0]})" for split, side in first["sides"].items())
            return LeakError(
                f"values stand on two sides of the split: {counts}; first, {first['kind']} {first['value']} in {places}",
                where=str(self.path),
                hint="run `shardkit split` on the whole set; do not change or add shards one by one",
            )
        if self.faults:
            more = f" and {len(self.faults) - 1} more" if len(self.faults) > 1 else ""
            return IntegrityError(
                f"{self.faults[0]}{more}", where=str(self.path), hint="build the dataset again from its inputs"
            )
        if self.identity:
            return IntegrityError(
                self.identity,
                where=str(self.path / MANIFEST),
                hint="restore the file, or build the dataset again from its inputs",
            )
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.path),
            "ok": self.error is None,
            "audited": len(self.splits) > 1,
            "splits": list(self.splits),
            "examples": self.examples,
            "sequences": self.sequences,
            "leaks": dict(self.leaks),
            "permitted": dict(self.permitted),
            "evidence": [dict(item) for item in self.evidence],
            "boilerplate": [dict(item) for item in self.boilerplate],
            "rules": dict(self.rules),
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "faults": list(self.faults[:FAULTS_SHOWN]),
            "num_faults": len(self.faults),
            "identity": self.identity,
        }
