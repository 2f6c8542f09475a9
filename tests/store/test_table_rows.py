"""Single rows of a table: those asked for, in that order, whatever row groups and columns the file has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from shardkit.errors import IntegrityError
from shardkit.store import table_rows
from shardkit.store.dataset import Dataset
from shardkit.store.table_rows import TableRows
from tests.prepare.builders import example, write

ROWS = [example(f"text {k}", source="web", group=f"g{k % 3}") for k in range(40)]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setattr("shardkit.store.merge._ROW_GROUP", 7)
    return write(tmp_path / "set", ROWS, unit_rows=9)


def test_rows_come_in_the_order_asked(dataset: Dataset) -> None:
    table = dataset.table("examples").to_pylist()
    rows = TableRows(dataset, "examples")
    assert len(rows) == 40
    asked = [39, 0, 7, 6, 8, 39]
    assert rows.take(asked) == [table[position] for position in asked]
    assert rows.take([13], ["position", "example_id"]) == [{"position": "14", "example_id": ROWS[13].example_id}]
    assert rows.take([]) == []


def test_row_groups_are_let_go_and_read_again(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "_KEPT", 1)
    table = dataset.table("provenance").to_pylist()
    rows = TableRows(dataset, "provenance")
    for position in (0, 39, 20, 0, 39):
        assert rows.take([position]) == [table[position]]
    assert len(rows._groups) == 1


def test_whole_columns_and_such_as_an_older_file_lacks(dataset: Dataset) -> None:
    rows = TableRows(dataset, "examples")
    table = rows.columns("group", "example_id")
    assert table.column_names == ["group", "example_id"]
    assert table["example_id"].to_pylist() == [row.example_id for row in ROWS]
    rows._schema = rows._schema.append(pa.field("later", pa.bool_()))
    assert rows.columns("later")["later"].null_count == 40
    assert rows.take([3], ["later", "row"]) == [{"later": None, "row": 3}]


def test_a_changed_file_is_refused(dataset: Dataset) -> None:
    file = dataset.path / "tables" / "examples.parquet"
    data = bytearray(file.read_bytes())
    data[40] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match="digest is xxh3"):
        TableRows(dataset, "examples")
    with pytest.raises(IntegrityError, match="no table 'lengths'"):
        TableRows(dataset, "lengths")
