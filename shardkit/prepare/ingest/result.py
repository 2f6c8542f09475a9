"""What an ingest has to say when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.records import Tally
from shardkit.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class IngestResult:
    path: Path | None
    """None with --dry-run."""
    dataset: str | None
    """Its id."""
    tally: Tally
    num_images: int
    num_bytes: int
    """Payload: images, texts and metadata."""
    num_ignored: int
    """Files below the PATHs that the format has no use for, apart from pictures that records may name."""
    unchanged: bool = False
    disk_need: int | None = None
    """Bytes of disk that the run may need, told before it began; None but with --dry-run, and with --limit."""

    def to_json(self, name: str) -> dict[str, Any]:
        """What `--json` prints. `name` is the format that was read."""
        captions = self.tally.changes["num_captions"]
        return {
            "format": name,
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset,
            "unchanged": self.unchanged,
            "images": self.num_images,
            "bytes": self.num_bytes,
            "ignored_files": self.num_ignored,
            **({"num_captions": captions} if captions else {}),
            **({"disk_need": self.disk_need} if self.path is None else {}),
            **self.tally.to_json(),
        }


def committed(path: Path, dataset: Dataset, tally: Tally, shards: Iterable[Mapping[str, int]]) -> IngestResult:
    """Of a dataset that was written now. `shards` has the counts of each of its shards."""
    totals = _sums(shards)
    return IngestResult(
        path=path,
        dataset=dataset.id,
        tally=tally,
        num_images=totals["images"],
        num_bytes=totals["bytes"],
        num_ignored=dataset.manifest.report["ignored_files"],
    )


def found(path: Path, dataset: Dataset) -> IngestResult:
    """Of a dataset that was there already."""
    counts, totals = dataset.manifest.counts, _sums(dataset.manifest.totals["by_split"].values())
    tally = Tally.from_json(counts)
    return IngestResult(
        path=path,
        dataset=dataset.id,
        tally=tally,
        num_images=totals["images"],
        num_bytes=totals["bytes"],
        num_ignored=dataset.manifest.report["ignored_files"],
        unchanged=True,
    )


def _sums(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    totals = Counter[str]()
    for one in counts:
        totals.update(one)
    return totals
