"""Parquet: every row once, whatever the groups, types and unit sizes; damage is refused by name."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers import parquet
from shardkit.prepare.ingest.containers.batch_rows import rows
from shardkit.prepare.ingest.metadata import encoded
from shardkit.prepare.ingest.units import InputFile
from tests.prepare.ingest.builders import config, entries, found, pieces


def written(tmp_path, table: pa.Table, name: str = "t.parquet", **settings) -> InputFile:
    path = tmp_path / name
    pq.write_table(table, path, **settings)
    return InputFile(name=name, path=str(path), size=path.stat().st_size)


def numbers(count: int) -> pa.Table:
    return pa.table({"n": list(range(count)), "pad": ["x" * 50] * count})


@pytest.mark.parametrize("row_group_size", [1, 7, 100, 1000])
@pytest.mark.parametrize("unit_size", [1, 500, 3000, 10**9])
def test_every_row_comes_once_and_in_order(tmp_path, row_group_size, unit_size):
    file = written(tmp_path, numbers(300), row_group_size=row_group_size, use_dictionary=False)
    got = found(entries("parquet", file, config(unit_size=unit_size)))
    assert [(position, value["n"]) for position, value in got] == [(str(n + 1), n) for n in range(300)]


def test_units_are_cut_at_row_groups_and_inside_large_ones(tmp_path):
    file = written(tmp_path, numbers(300), row_group_size=100, use_dictionary=False, compression="none")
    group = pq.ParquetFile(file.path).metadata.row_group(0).total_byte_size
    borders = [(p.start, p.end) for p in pieces("parquet", file, config(unit_size=group))]
    assert borders == [(0, 100), (100, 200), (200, 300)]
    halves = [(p.start, p.end) for p in pieces("parquet", file, config(unit_size=group // 2 + 1))]
    assert halves == [(0, 50), (50, 100), (100, 150), (150, 200), (200, 250), (250, 300)]


def test_no_rows_are_no_error(tmp_path):
    assert entries("parquet", written(tmp_path, numbers(0)), config()) == []


def test_all_layouts_of_text_and_bytes_hold_the_same_rows(tmp_path):
    values = {"text": ["a", None, "ä"], "images": [[b"x"], [], None]}
    types = [
        (pa.string(), pa.list_(pa.binary())),
        (pa.large_string(), pa.large_list(pa.large_binary())),
        (pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.binary())),
    ]
    read = []
    for number, (text, images) in enumerate(types):
        table = pa.table({"text": pa.array(values["text"]).cast(text), "images": pa.array(values["images"], images)})
        read.append(found(entries("parquet", written(tmp_path, table, f"{number}.parquet"), config())))
    assert read[0] == read[1] == read[2]
    assert read[0][2] == ("3", {"text": "ä", "images": None})


def test_a_value_that_is_no_utf8_costs_its_row_only(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ok\xff\xfe")]
    )
    got = found(entries("parquet", written(tmp_path, pa.table({"text": bad})), config()))
    assert got == [("1", {"text": "ok"}), ("2", "invalid_utf8")]


def test_a_time_that_python_has_none_for_is_text(tmp_path):
    moments = pa.array([1_700_000_000_123_456_789, None], pa.timestamp("ns", "+01:00"))
    years = pa.array([{"at": [253_402_300_800]}, None], pa.struct([("at", pa.list_(pa.timestamp("s")))]))
    pairs = pa.array([[("k", 1), ("l", None)], None], pa.map_(pa.string(), pa.timestamp("ns")))
    assert rows(pa.record_batch({"at": pairs, "years": years}))[0]["at"][1] == ("l", None)
    batch = pa.record_batch({"moment": moments, "nested": years, "text": ["a", "b"]})
    assert rows(batch)[1] == {"moment": None, "nested": None, "text": "b"}
    assert rows(batch)[0]["nested"]["at"][0].startswith("10000-01-01")
    told = encoded({"at": rows(batch)[0]["moment"]}, Counter(), keep_private=False)
    assert told == '{"at":"2023-11-14T23:13:20.123456789+01:00"}'


def test_a_value_that_python_has_none_for_costs_its_row(tmp_path):
    twice = pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.array([3, 4])], names=["x", "x"], mask=pa.array([True, False])
    )
    first, second = rows(pa.record_batch({"twice": twice, "n": [1, 2]}))
    assert first == {"twice": None, "n": 1}
    assert (second.reason, second.detail) == ("wrong_type", "column twice: a struct names a field twice")


def test_a_cut_file_is_refused_with_its_size(tmp_path):
    file = written(tmp_path, numbers(50))
    data = (tmp_path / "t.parquet").read_bytes()
    for size in (0, 3, 11, len(data) // 2, len(data) - 1):
        (tmp_path / "t.parquet").write_bytes(data[:size])
        with pytest.raises(SourceError, match=rf"t\.parquet: incomplete.*{size} bytes"):
            parquet.check(InputFile(name=file.name, path=file.path, size=size), (), config())


def test_a_damaged_page_is_refused_and_the_rows_before_it_are_salvaged(tmp_path):
    file = written(
        tmp_path, numbers(300), row_group_size=100, use_dictionary=False, compression="none", write_page_checksum=True
    )
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    place = pq.ParquetFile(file.path).metadata.row_group(1).column(1).data_page_offset + 200
    data[place] ^= 0xFF
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(SourceError, match="row group 1 is damaged"):
        entries("parquet", file, config())
    got = found(entries("parquet", file, config(salvage=True)))
    assert [value["n"] for _, value in got[:-1]] == list(range(100))
    assert got[-1] == ("101", "damaged_input")
