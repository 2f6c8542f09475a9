"""A chunk of a unit is what the examples themselves would make, whichever way its rows are looked up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.split import write as module
from shardkit.prepare.split.write import Job, Readers, rows_of_chunk
from shardkit.records import Example
from shardkit.store import Dataset
from shardkit.store.columns import to_rows
from tests.prepare.builders import example, png, write

ROWS = 90


def made(number: int) -> Example:
    pictures = [png(number)] if number % 3 else [png(number), png(number + 1000)] if number % 2 else []
    return example(None if number % 7 == 1 and pictures else f"text {number}", *pictures, group=f"g{number}", n=number)


@pytest.mark.parametrize("shards", ["arrow", "tar"])
@pytest.mark.parametrize("held", [True, False])
def test_gathered_rows_are_those_of_the_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: str, held: bool
):
    rows = [made(k) for k in range(ROWS)]
    write(tmp_path / "a", rows, unit_rows=40, shards=shards)
    dataset = Dataset.open(tmp_path / "a")
    if not held:
        monkeypatch.setattr(module, "_DENSE", 2.0)
        monkeypatch.setattr(module, "_WINDOW", 8)
    chosen = np.random.default_rng(0).permutation(ROWS)[:60]
    table = dataset.table("examples").take(pa.array(chosen))
    places = table.select(["input", "position", "parent_id", "has_email", "has_phone"])
    expected = to_rows([rows[k] for k in chosen], places.to_pylist())
    job = Job(
        writer=None, dataset=dataset.path, dataset_id=dataset.id, bases=(),
        shards=as_int32(table["shard_index"]), rows=as_int32(table["row"]), sizes=np.array(expected.sizes, np.int64),
        places=places, groups=pa.array([f"new {k}" if k % 2 else None for k in chosen], pa.string()),
    )  # fmt: skip
    found = rows_of_chunk(Readers(dataset), job, slice(10, 50))
    wanted = expected.slice(10, 50)
    assert found.pictures == wanted.pictures
    assert found.sizes == wanted.sizes
    assert found.num_images == wanted.num_images
    assert found.places.to_pylist() == wanted.places.to_pylist()
    facts = wanted.facts.to_pylist()
    for row, group in zip(facts, job.groups.slice(10, 40).to_pylist(), strict=True):
        row["group"] = group
    assert found.facts.to_pylist() == facts
    assert found.facts.schema == wanted.facts.schema
