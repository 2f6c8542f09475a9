"""A run of the whole stage, as tests of formats look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shardkit.prepare.ingest import IngestConfig, IngestResult, run
from shardkit.records import Example
from shardkit.store.dataset import Dataset
from tests.prepare.ingest.builders import examples


class Ingested:
    """What a run committed.

    Attributes:
        rows: position -> example.
        examples: all of them, also those of several inputs that share a position.
        exclusions: position -> reason.
    """

    def __init__(self, out: Path, kind: str, *paths: Path, **settings: Any) -> None:
        self.result: IngestResult = run(IngestConfig(format=kind, paths=paths, output=out, **settings))
        self.rows: dict[str, Example] = examples(out)
        self.examples = [example for _, _, example in Dataset.open(out).examples()]
        self.exclusions = {row["position"]: row["reason"] for row in map(json.loads, Dataset.open(out).exclusions())}

    @property
    def counts(self) -> tuple[int, int, int]:
        """Read, kept, excluded."""
        return self.result.tally.read, self.result.tally.kept, sum(self.result.tally.excluded.values())

    @property
    def changes(self) -> dict[str, int]:
        return dict(self.result.tally.changes)

    def metadata(self, position: str) -> dict[str, Any]:
        return json.loads(self.rows[position].metadata)

    def layout(self, position: str) -> list[tuple[str, str | None, tuple[float, ...], int | None, int | None]]:
        """(level, text, polygon, parent, order) of every item on the first picture."""
        items = self.rows[position].images[0].layout or ()
        return [(item.level, item.text, item.polygon, item.parent, item.order) for item in items]

    def num_items(self, level: str) -> int:
        """Items of a level, on all pictures."""
        return sum(
            item.level == level for row in self.rows.values() for image in row.images for item in image.layout or ()
        )
