"""What a command committed, looked up by input and position."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shardkit.records import Example
from shardkit.store.dataset import Dataset


@dataclass(kw_only=True)
class Stored:
    path: Path
    dataset: Dataset
    examples: list[Example]
    places: list[dict]
    """input, position and split of each example."""
    exclusions: list[dict]
    manifest_text: str

    def find(self, position: str | int) -> Example | None:
        """The kept example at `position` or `input:position`; None where it is not kept."""
        found = [e for e, place in zip(self.examples, self.places, strict=True) if _is_at(place, position)]
        assert len(found) < 2, f"{position} is kept {len(found)} times"
        return found[0] if found else None

    def split_at(self, position: str | int) -> str | None:
        return next((place["split"] for place in self.places if _is_at(place, position)), None)

    def exclusions_at(self, position: str | int) -> list[dict]:
        return [entry for entry in self.exclusions if _is_at(entry, position)]

    def is_excluded(self, position: str | int) -> bool:
        return bool(self.exclusions_at(position))

    @property
    def shard_digests(self) -> list[str]:
        return [entry.xxh3 for entry in self.dataset.manifest.shards]


def _is_at(place: dict, position: str | int) -> bool:
    return str(position) in (place["position"], f"{place['input']}:{place['position']}")


def stored(path: Path) -> Stored | None:
    """The dataset at `path`, or None where nothing is committed."""
    if not (path / "manifest.json").exists():
        return None
    dataset = Dataset.open(path)
    rows = [(shard, example) for shard, _, example in dataset.examples()]
    table = dataset.table("examples").select(["input", "position"]).to_pylist()
    places = [{**place, "split": dataset.shards[shard].split} for place, (shard, _) in zip(table, rows, strict=True)]
    with pa.OSFile(str(path / "exclusions.jsonl.zst")) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
        lines = stream.read().split(b"\n")
    return Stored(
        path=path,
        dataset=dataset,
        examples=[example for _, example in rows],
        places=places,
        exclusions=[json.loads(line) for line in lines if line],
        manifest_text=(path / "manifest.json").read_text(),
    )
