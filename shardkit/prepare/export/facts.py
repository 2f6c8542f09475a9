"""What was found out about an export while it was written: for its card, its Croissant file and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import orjson

from shardkit.prepare.export.config import About
from shardkit.prepare.export.row import Exported
from shardkit.prepare.report.chain import Account
from shardkit.store.folder import FolderFile
from shardkit.text.language import LOOKED_AT, UNDETERMINED, declared, identify

UNKNOWN = "unknown"
_TEXTS = 1024
"""Texts whose language is looked at together."""


@dataclass(kw_only=True, slots=True)
class Counts:
    """Counts of rows as they are written; those of several files add up."""

    examples: int = 0
    images: int = 0
    pixels: int = 0
    image_bytes: int = 0
    other_ids: int = 0
    """Examples whose id is another one when they are read again, because an image lost bytes when it was taken in."""
    by_split: Counter[str] = field(default_factory=Counter)
    by_source: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    """Images by licence; one with several counts under each."""
    annotators: Counter[str] = field(default_factory=Counter)
    """Relations by annotator."""
    relations: Counter[str] = field(default_factory=Counter)
    media_types: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    """Examples by language, as their metadata declares it or the model finds it."""
    retrieved: Counter[str] = field(default_factory=Counter)
    """Images by when they were retrieved, where that is known."""
    unidentified: list[str] = field(default_factory=list)
    """Beginnings of texts whose language is not looked at yet."""

    def take(self, one: Exported, split: str) -> None:
        """Count a row."""
        example = one.example
        self.examples += 1
        self.images += len(example.images)
        self.pixels += sum(image.width * image.height for image in example.images)
        self.image_bytes += sum(len(image.data) for image in example.images)
        self.other_ids += not one.keeps_id
        self.by_split[split] += 1
        self.by_source[example.source] += 1
        for origins in one.origins:
            self.licences.update({origin["licence"] or UNKNOWN for origin in origins} or {UNKNOWN})
            self.retrieved.update({when for origin in origins if (when := origin["retrieved_at"])})
        for relation in example.relations:
            self.relations[relation.kind] += 1
            if relation.annotator:
                self.annotators[relation.annotator] += 1
        self.media_types.update(image.media_type for image in example.images)
        said = declared(orjson.loads(example.metadata)) if '"lang' in example.metadata else None
        if said is not None:
            self.languages[said] += 1
        elif beginning := example.text.lstrip()[:LOOKED_AT]:
            self.unidentified.append(beginning)
        if len(self.unidentified) >= _TEXTS:
            self.settle()

    def settle(self) -> None:
        """Name the languages of the texts that wait for it: many at once are far faster than one by one."""
        self.languages.update(language for language, _ in identify(self.unidentified))
        self.unidentified.clear()

    def add(self, other: Counts) -> None:
        """Add the counts of another file; both are settled."""
        for name in _COUNTS:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            else:
                setattr(self, name, mine + theirs)

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _COUNTS}
        return {k: dict(sorted(v.items())) if isinstance(v, Counter) else v for k, v in values.items()}


_COUNTS = tuple(one.name for one in fields(Counts) if one.name != "unidentified")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """An export as a whole."""

    about: About
    dataset_id: str
    stages: tuple[Account, ...]
    """Of each stage from the newest back to ingest."""
    counts: Counts
    files: Mapping[str, tuple[FolderFile, ...]]
    """Split, as the format calls it -> its files."""

    @property
    def name(self) -> str:
        return self.about.name or (", ".join(sorted(self.counts.by_source)) or "empty")

    @property
    def licences(self) -> tuple[str, ...]:
        """Those that are known, the most frequent first."""
        ordered = sorted(self.counts.licences.items(), key=lambda item: (-item[1], item[0]))
        return tuple(name for name, _ in ordered if name != UNKNOWN)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those of one text in a hundred or more, the most frequent first."""
        known = {name: count for name, count in self.counts.languages.items() if name != UNDETERMINED}
        least = sum(known.values()) / 100
        ordered = sorted(known.items(), key=lambda item: (-item[1], item[0]))
        return tuple(name for name, count in ordered if count >= least)
