"""What a run of dedup is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError, guess
from shardkit.prepare.dedup import MATCHERS, near_text, perceptual
from shardkit.prepare.dedup.boilerplate import LEAST_DOCUMENTS, LEAST_SHARE
from shardkit.prepare.dedup.levels import LEVELS
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.prepare.ingest.group import suffix_list_version
from shardkit.prepare.result import StageResult
from shardkit.store.dataset import Dataset
from shardkit.store.files import digest_file

DEDUP_VERSION = 3
"""Part of every recipe: a change of what dedup makes of equal input gets a new number."""

BOILERPLATE = ("report", "remove")
RELATIONS = ("drop", "move")
SHARD_SIZE = 256_000_000

DEFAULT_LEVELS = ("exact", "pixel", "perceptual", "text")
"""All that need nothing but the datasets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupConfig:
    """Paths, workers and the output say where; everything else is the recipe."""

    inputs: tuple[Path, ...]
    """Datasets, in any order."""
    output: Path | None
    """None with dry_run."""
    levels: tuple[str, ...] = DEFAULT_LEVELS
    """Some of LEVELS, in any order."""
    preset: str = "web"
    """Key of near_text.PRESETS: what a near text is."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Near level -> score from which two are duplicates, where it is not the matcher's own."""
    transforms: tuple[str, ...] = ()
    """mirror, rotate: pictures that are also looked for mirrored or turned."""
    embeddings: tuple[Path, ...] = ()
    """Files with vectors of examples or images, for the level semantic."""
    embedding_column: str | None = None
    """The column of the vectors, where there are several."""
    embedding_field: str | None = None
    """A metadata field that holds the vectors, instead of files."""
    references: tuple[Path, ...] = ()
    """Datasets that inputs are compared with; their rows always stay and are not part of the output."""
    priority: tuple[str, ...] = ()
    """Sources whose examples are rather kept, the first before the second; others come after."""
    max_removed_per_source: float = 0.5
    """Share of a source, judged from 1,000 rows on."""
    boilerplate_min: int = LEAST_DOCUMENTS
    boilerplate_share: float = LEAST_SHARE
    """A paragraph in more documents of a site than both is boilerplate."""
    boilerplate: str = "report"
    """Of BOILERPLATE: whether such lines are named, or also taken out of the texts."""
    relations: str = "drop"
    """Of RELATIONS: what becomes of captions of images that go."""
    shard_size: int = SHARD_SIZE
    """Payload bytes at which a shard of changed rows closes."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        _known("level", self.levels, LEVELS, "--level")
        _known("preset", (self.preset,), near_text.PRESETS, "--preset")
        _known("transform", self.transforms, perceptual.TRANSFORMS, "--transforms")
        _known("way with boilerplate", (self.boilerplate,), BOILERPLATE, "--boilerplate")
        _known("way with relations", (self.relations,), RELATIONS, "--relations")
        _known("near level", tuple(self.thresholds), NEAR, "--threshold LEVEL=SCORE")
        if not self.levels:
            raise ConfigError("no level is named", hint=f"choose some of {', '.join(LEVELS)} with --level")
        if not 0 <= self.max_removed_per_source <= 1:
            raise ConfigError(
                f"--max-removed-per-source {self.max_removed_per_source} is no share", hint="give a number from 0 to 1"
            )
        if self.boilerplate_min < 1:
            raise ConfigError(
                f"--boilerplate-min {self.boilerplate_min} is no number of documents", hint="give 1 or more"
            )
        if self.shard_size < 1:
            raise ConfigError(f"--shard-size {self.shard_size} is no size", hint="give 1 or more bytes")
        if not 0 <= self.boilerplate_share <= 1:
            raise ConfigError(
                f"--boilerplate-share {self.boilerplate_share} is no share", hint="give a number from 0 to 1"
            )
        for level, score in self.thresholds.items():
            floor = self.preset_of_text.floor if level == "text" else NEAR[level].FLOOR
            if not floor <= score <= 1:
                raise ConfigError(
                    f"the threshold {score} of level {level} is not between {floor} and 1",
                    hint="what is further apart than the lower bound is not looked for",
                )
        given = bool(self.embeddings or self.embedding_field)
        if ("semantic" in self.levels) != given:
            raise ConfigError(
                "the level semantic compares vectors, and none are given"
                if not given
                else "vectors are given, and the level semantic that compares them is not asked for",
                hint="give both --level semantic and --embeddings FILE, or --embedding-field NAME",
            )

    @property
    def ordered_levels(self) -> tuple[str, ...]:
        """From the strictest to the loosest. Images that are equal look alike: perceptual takes pixel with it."""
        asked = {*self.levels, *(("pixel",) if "perceptual" in self.levels else ())}
        return tuple(level for level in LEVELS if level in asked)

    @property
    def preset_of_text(self) -> near_text.Preset:
        return near_text.PRESETS[self.preset]

    def threshold(self, level: str) -> float:
        """The score from which a near level removes."""
        own = self.preset_of_text.threshold if level == "text" else NEAR[level].THRESHOLD
        return self.thresholds.get(level, own)

    def recipe(self) -> dict[str, Any]:
        return {
            "version": DEDUP_VERSION,
            "levels": self.versions(),
            "preset": self.preset,
            "thresholds": {level: self.threshold(level) for level in self.ordered_levels if level in NEAR},
            "transforms": sorted(set(self.transforms)),
            "embeddings": [digest_file(path)[1] for path in self.embeddings],
            "embedding_column": self.embedding_column,
            **({"embedding_field": self.embedding_field} if self.embedding_field else {}),
            "references": sorted(Dataset.open(path, base=self.bases).id for path in self.references),
            "priority": list(self.priority),
            "max_removed_per_source": self.max_removed_per_source,
            "boilerplate": {"min": self.boilerplate_min, "share": self.boilerplate_share, "way": self.boilerplate},
            "relations": self.relations,
            "shard_size": self.shard_size,
            "public_suffix_list": suffix_list_version(),
        }

    def versions(self) -> dict[str, list[int]]:
        """Level -> versions of its matchers."""
        return {
            level: [table[level].VERSION for table in (MATCHERS, NEAR) if level in table]
            for level in self.ordered_levels
        }


def _known(what: str, given: Iterable[str], there: Iterable[str], option: str) -> None:
    for name in given:
        if name not in there:
            raise ConfigError(
                f"there is no {what} {name!r}; there are {', '.join(there)}",
                hint=f"choose with {option}{guess(name, there)}",
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class DedupResult(StageResult):
    """`report`: by_source, frequent_texts, same_images_other_text, conflicting_annotations, boilerplate, relations, crowded,
    vectors."""

    refused: str | None = None
    """Of a dry run: why the real one would be refused."""

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {**StageResult.to_json(self), "refused": self.refused}
