"""Columns that a later version adds are null in the datasets of earlier ones, and no part of what was stored."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from shardkit.store import Dataset
from shardkit.store import tables as module
from shardkit.store.schema import TABLES
from tests.store.builders import make_example, write_dataset


def test_a_column_that_is_not_there_is_read_as_nulls(tmp_path: Path, monkeypatch):
    path = tmp_path / "data"
    write_dataset(path, [[make_example(0), make_example(1)]])
    later = {**TABLES, "examples": pa.schema([*TABLES["examples"], ("has_more", pa.bool_())])}
    monkeypatch.setattr(module, "TABLES", later)
    dataset = Dataset.open(path)
    whole = dataset.table("examples")
    assert whole.schema.names == later["examples"].names
    assert whole["has_more"].null_count == whole.num_rows > 0
    assert whole.cast(later["examples"]).num_rows == whole.num_rows
    part = dataset.table("examples", ["has_more", "row"])
    assert (part.schema.names, part["has_more"].type) == (["has_more", "row"], pa.bool_())
    assert dataset.table("examples", as_stored=True).schema.names == TABLES["examples"].names
