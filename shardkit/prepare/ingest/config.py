"""What `shardkit ingest` is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.media.decode import DECODER
from shardkit.media.limits import MediaLimits
from shardkit.media.phash import LOOKS
from shardkit.prepare.ingest.units import UNIT_BYTES
from shardkit.store.units import check_shards

INGEST_VERSION = 5
"""Part of every recipe: a change of what ingest makes of equal input gets a new number."""

MISSING_IMAGE = ("drop-image", "drop-document", "fail")
MISSING_LABEL = ("exclude", "keep")


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestConfig:
    """Paths, workers and the output say where; everything else is the recipe."""

    format: str
    """A key of SOURCES."""
    paths: tuple[Path, ...]
    output: Path | None
    """None with dry_run."""
    source: str | None = None
    """Name of the source; None: the name of the input root."""
    revision: str | None = None
    retrieved_at: str | None = None
    licence: str | None = None
    images: tuple[Path, ...] = ()
    url_maps: tuple[Path, ...] = ()
    new_since: tuple[Path, ...] = ()
    """Older datasets: what they were made from is left out."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Name of the format -> column of the input."""
    label_vocab: Path | None = None
    """File of one label a line: what token ids of labels stand for."""
    group_by: str | None = None
    shards: str = "arrow"
    shard_size: int = 256_000_000
    """Payload bytes."""
    unit_size: int = UNIT_BYTES
    """Bytes."""
    on_error: str = "exclude"
    """exclude | fail"""
    on_missing_image: str | None = None
    """One of MISSING_IMAGE; None: what the format does."""
    on_missing_label: str = "exclude"
    """One of MISSING_LABEL."""
    max_bad: float = 0.05
    """Share of the records, judged at the end and from 1,000 records on."""
    limit: int | None = None
    """Records read at most, over all inputs."""
    salvage: bool = False
    keep_metadata: bool = False
    limits: MediaLimits = field(default_factory=MediaLimits)
    workers: int = 1
    overwrite: bool = False
    dry_run: bool = False
    missing_urls: Path | None = None
    """Where the addresses without a file are written, once the dataset is committed."""
    root: Path | None = None
    """A folder that holds all PATHs; None: the deepest one. Inputs are named below it."""
    prepared: str | None = None
    """What kind of prepared set `shardkit import` reads; None: raw dumps."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """Input -> the split of an imported set that it belongs to."""

    def __post_init__(self) -> None:
        check_shards(self.shards, self.shard_size)

    def with_split(self, name: str, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the input `name` that says its split, unless it has such a field, or came from an export of ours."""
        split = self.splits.get(name)
        return row if split is None or "split" in row or "_shardkit" in row else {**row, "split": split}

    def recipe(self, *, source: str, on_missing_image: str, label_vocab: str | None = None) -> dict[str, Any]:
        """The config as JSON values, with what was resolved.

        Args:
            label_vocab: xxh3-128 of the vocabulary's file; it is a part only where there is one.

        What only decides whether a run commits (on_error, max_bad) is no part of it: asking again with another value
        goes on from what was done.
        """
        return {
            "version": INGEST_VERSION,
            "format": self.format,
            "source": source,
            "revision": self.revision,
            "retrieved_at": self.retrieved_at,
            "licence": self.licence,
            "fields": dict(sorted(self.fields.items())),
            "group_by": self.group_by,
            "shards": self.shards,
            "shard_size": self.shard_size,
            "unit_size": self.unit_size,
            "on_missing_image": on_missing_image,
            "on_missing_label": self.on_missing_label,
            "limit": self.limit,
            "salvage": self.salvage,
            "keep_metadata": self.keep_metadata,
            "max_pixels": self.limits.max_pixels,
            "max_bytes": self.limits.max_bytes,
            "max_aspect": self.limits.max_aspect,
            "decoder": DECODER,
            "looks": LOOKS,
            **({} if label_vocab is None else {"label_vocab": label_vocab}),
            **({} if self.prepared is None else {"prepared": self.prepared, "splits": dict(self.splits)}),
        }
