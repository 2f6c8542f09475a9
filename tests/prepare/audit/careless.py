"""A split that somebody made without looking: rows by chance, as a committed dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from shardkit.digest import mix64, sha256
from shardkit.prepare.dedup import near_text, perceptual
from shardkit.records import Example, Tally
from shardkit.store import Dataset, Output, Sealed
from tests.prepare.builders import provenance

NEAR = {
    "perceptual": {"version": perceptual.VERSION, "threshold": perceptual.THRESHOLD, "transforms": []},
    "text": {"version": near_text.VERSION, "preset": "web", "threshold": 0.75},
}
RECORD = {"group_by": None, "edges": "near", "near": NEAR}
"""What a split says of its matchers."""


def by_chance(number: int) -> str:
    return "test" if mix64("careless", number) % 3 == 0 else "train"


def write_split(
    path: Path,
    parts: Mapping[str, Sequence[Example]],
    *,
    recipe: Mapping[str, Any] = RECORD,
    parents: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
    shards: str = "arrow",
    shard_size: int = 1 << 20,
) -> Dataset:
    """Commit examples as a split; nothing is looked at.

    Args:
        parents: example id -> that of the example it was made from.
        inputs: example id -> the file it came from.
    """
    with Output(path, stage="split", recipe=dict(recipe)) as output:
        for split, rows in parts.items():
            with output.unit(0, f"{split}-0", shards=shards, shard_size=shard_size, split=split) as unit:
                for number, row in enumerate(rows):
                    unit.add(
                        row,
                        input=(inputs or {}).get(row.example_id, "rows.jsonl"),
                        position=str(number),
                        parent_id=(parents or {}).get(row.example_id),
                        provenance=_provenance(row, str(number)),
                    )
                unit.finish()
        total = sum(map(len, parts.values()))
        return output.commit(Sealed(tally=Tally(read=total, kept=total), splits=tuple(parts)))


def _provenance(row: Example, position: str) -> list[dict[str, Any]]:
    """What is stored of a picture may be less than the file; provenance says so."""
    rows = provenance(row, position, None)
    for known, image in zip(rows, row.images, strict=False):
        known["preprocessing"] = "none" if sha256(image.data) == image.asset_id else "removed:metadata"
    return rows


def careless(
    source: Path, path: Path, *, side: Callable[[int], str] = by_chance, recipe: Mapping[str, Any] = RECORD
) -> dict[str, list[Example]]:
    """Split a dataset row by row."""
    dataset = Dataset.open(source)
    table = dataset.table("examples", ["example_id", "input"])
    parts: dict[str, list[Example]] = {"train": [], "test": []}
    for number, (_, _, example) in enumerate(dataset.examples()):
        parts[side(number)].append(example)
    inputs = dict(zip(table["example_id"].to_pylist(), table["input"].to_pylist(), strict=True))
    write_split(path, parts, recipe=recipe, inputs=inputs)
    return parts
