"""Vectors that rows carry in their metadata: JSON lists and Parquet lists, kept by ingest, compared by dedup."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.cli import run
from shardkit.errors import ConfigError
from shardkit.prepare.dedup.config import DedupConfig
from shardkit.store import Dataset
from tests.prepare.builders import texts

ROWS = [
    {"text": "a cat that sits on a mat", "clip": [1.0, 0.0, 0.0]},
    {"text": "eine Katze auf der Matte", "clip": [1.0, 0.01, 0.0]},
    {"text": "something else", "clip": [0.0, 1.0, 0.0]},
    {"text": "without a vector", "clip": None},
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_list_of_numbers_in_a_row_is_a_vector(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        file.write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    assert run(["ingest", "rows", str(file), "-o", str(tmp_path / "set"), "--quiet"]) == 0
    options = ["--level", "semantic", "--embedding-field", "clip", "--quiet"]
    assert run(["dedup", str(tmp_path / "set"), "-o", str(tmp_path / "clean"), *options]) == 0
    left = texts(Dataset.open(tmp_path / "clean"))
    assert len(left) == 3
    assert {"something else", "without a vector"} < set(left)
    capsys.readouterr()


def test_vectors_and_the_level_go_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vectors are given, and the level semantic"):
        DedupConfig(inputs=(tmp_path,), output=tmp_path / "o", embedding_field="clip")
    with pytest.raises(ConfigError, match="none are given"):
        DedupConfig(inputs=(tmp_path,), output=tmp_path / "o", levels=("semantic",))
