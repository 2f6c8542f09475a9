"""Tables beside archives: which are whose, each folder looked at once, each row found by its key."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.prepare.ingest.containers import side_table
from tests.prepare.ingest.builders import input_file


def table(path, keys, **columns) -> None:
    pq.write_table(pa.table({"key": keys, "url": ["u"] * len(keys), **columns}), path)


def test_a_folder_of_archives_is_looked_at_once(tmp_path, monkeypatch):
    table(tmp_path / "00.parquet", ["a"])
    table(tmp_path / "all.parquet", ["a"])
    pq.write_table(pa.table({"text": ["no table of addresses"]}), tmp_path / "other.parquet")
    archives = [input_file(tmp_path, f"{k:02}.tar", b"") for k in range(5)]
    looked = []
    listdir = os.listdir
    monkeypatch.setattr(side_table.os, "listdir", lambda folder: looked.append(folder) or listdir(folder))
    folders = side_table.Folders()
    found = [[one.name for one in folders.tables_beside(archive)] for archive in archives]
    assert found == [["00.parquet"], *[["all.parquet"]] * 4]
    assert len(looked) == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.int64()])
def test_rows_of_a_shared_table_are_found_by_their_keys(tmp_path, kind):
    keys = pa.array([str(k) for k in range(10, 20)]).cast(kind)
    pq.write_table(
        pa.table({"key": keys, "url": ["u"] * 10, "n": list(range(10))}), tmp_path / "all.parquet", row_group_size=3
    )
    archive = input_file(tmp_path, "00.tar", b"")
    archive = replace(archive, beside=side_table.Folders().tables_beside(archive))
    samples = {"below/11": None, "19": None, "none": None}
    got = side_table.read(archive, samples.keys(), salvage=False)
    assert {key: row["n"] for key, row in got.by_key.items()} == {"below/11": 1, "19": 9}
    assert got.changes == {"side_table_row": 2}
