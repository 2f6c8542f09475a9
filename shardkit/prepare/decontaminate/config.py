"""What a run of decontaminate is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.decontaminate.vectors import Embeddings
from shardkit.prepare.dedup import perceptual, semantic
from shardkit.prepare.result import StageResult
from shardkit.store.files import digest_file

DECONTAMINATE_VERSION = 1
"""Part of every recipe: a change of what decontaminate makes of equal input gets a new number."""

ACTIONS = ("exclude", "report")

NGRAMS: Mapping[int, float] = MappingProxyType({8: 0.8, 13: 0.5})
"""Tokens of an n-gram -> share of an item's n-grams that a text must hold to hold the item."""
SHORTEST, LONGEST = 5, 50
"""Below five tokens in a row are idioms; more than fifty are no n-gram but the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Benchmark:
    """One --against: a dataset, or a table or folder of tables."""

    name: str
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminateConfig:
    """Paths, workers and the output say where; everything else is the recipe, and the benchmarks by their content."""

    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    benchmarks: tuple[Benchmark, ...]
    output: Path | None
    """None with dry_run."""
    action: str = "exclude"
    """One of ACTIONS."""
    ngrams: Mapping[int, float] = field(default_factory=lambda: dict(NGRAMS))
    common_groups: int = 5
    common_share: float = 0.0001
    """An n-gram, or a picture, is common where more groups hold it than either says; judged over all rows and for each
    source by itself."""
    max_removed_per_source: float = 0.5
    """Share of a source, judged from 1,000 rows on."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Part of an item -> column of the benchmarks' tables."""
    embeddings: tuple[Path, ...] = ()
    """Files of vectors of the images of inputs and benchmarks, by asset_id."""
    embedding_column: str | None = None
    embedding_threshold: float = semantic.THRESHOLD
    """Cosine."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False
    self_test: bool = False

    def __post_init__(self) -> None:
        if not self.benchmarks:
            raise ConfigError("no benchmark is named", hint="name one with --against BENCH")
        names = [benchmark.name for benchmark in self.benchmarks]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two benchmarks have the name {name!r}", hint="name them apart with --against NAME=PATH"
                )
        if self.action not in ACTIONS:
            raise ConfigError(f"there is no action {self.action!r}", hint=f"use one of: {', '.join(ACTIONS)}")
        if not self.ngrams:
            raise ConfigError("no n-gram is named", hint="give for instance --ngram 8=0.8 --ngram 13=0.5")
        for width, share in self.ngrams.items():
            if not SHORTEST <= width <= LONGEST:
                raise ConfigError(
                    f"--ngram {width}: an n-gram of {width} tokens", hint=f"give a number from {SHORTEST} to {LONGEST}"
                )
            if not 0 < share <= 1:
                raise ConfigError(f"--ngram {width}={share}: no share", hint="give a share above 0 and up to 1")
        for path in self.embeddings:
            if not path.is_file():
                raise ConfigError("there is no such file of vectors", where=str(path), hint="check --embeddings")
        if not 0 < self.embedding_threshold <= 1:
            raise ConfigError(
                f"--embedding-threshold {self.embedding_threshold} is no cosine of near vectors",
                hint="give a number above 0 and up to 1",
            )
        if not 0 <= self.max_removed_per_source <= 1:
            raise ConfigError(
                f"--max-removed-per-source {self.max_removed_per_source} is no share", hint="give a number from 0 to 1"
            )
        if self.common_groups < 1 or not 0 <= self.common_share <= 1:
            raise ConfigError(
                "a limit of common n-grams is impossible",
                hint="give --common-groups from 1 on and --common-share from 0 to 1",
            )

    @property
    def ordered_benchmarks(self) -> tuple[Benchmark, ...]:
        return tuple(sorted(self.benchmarks, key=lambda benchmark: benchmark.name))

    def recipe(self, digests: Mapping[str, str]) -> dict[str, Any]:
        """The config as JSON values.

        Args:
            digests: name of each benchmark -> digest of its items.
        """
        given = self.vectors
        return {
            "version": DECONTAMINATE_VERSION,
            "benchmarks": dict(sorted(digests.items())),
            "action": self.action,
            "ngrams": {str(width): share for width, share in sorted(self.ngrams.items())},
            "common_groups": self.common_groups,
            "common_share": self.common_share,
            "max_removed_per_source": self.max_removed_per_source,
            "perceptual": perceptual.VERSION,
            "embeddings": None if given is None else self._embedding_recipe(given),
        }

    @property
    def vectors(self) -> Embeddings | None:
        if not self.embeddings:
            return None
        return Embeddings(paths=self.embeddings, column=self.embedding_column, threshold=self.embedding_threshold)

    @staticmethod
    def _embedding_recipe(given: Embeddings) -> dict[str, Any]:
        files = sorted(digest_file(path)[1] for path in given.paths)
        return {"files": files, "column": given.column, "threshold": given.threshold}

    def common_limit(self, num_groups: int) -> int:
        """In more groups than this, of `num_groups`, an n-gram or picture is common."""
        return max(self.common_groups, int(self.common_share * num_groups))


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfTest:
    planted: int
    found: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DecontaminateResult(StageResult):
    """`report`: benchmarks, by_source."""

    self_test: SelfTest | None
    refused: str | None = None
    """Of a dry run: why the real one would be refused."""

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        test = self.self_test
        return {
            **StageResult.to_json(self),
            "self_test": None if test is None else {"planted": test.planted, "found": test.found},
            "refused": self.refused,
        }
