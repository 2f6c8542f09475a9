"""Arrow files of rows: files and streams, batches of any size, damage of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.store import Dataset
from tests.prepare.ingest.builders import picture


def rows(count: int) -> pa.Table:
    return pa.table({"text": [f"text {k}" for k in range(count)], "k": list(range(count))})


def save(path: Path, table: pa.Table, *, stream: bool = True, batch: int = 7) -> Path:
    with pa.OSFile(str(path), "wb") as out:
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        with make(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=batch)
    return path


def ingested(path: Path, output: Path, **options) -> Dataset:
    run(IngestConfig(**{"format": "text", "paths": (path,), "output": output, **options}))
    return Dataset.open(output)


def texts(dataset: Dataset) -> list[str]:
    return [e.text for _, _, e in dataset.examples()]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("unit_size", [100, 1 << 20])
def test_files_and_streams(tmp_path: Path, stream: bool, unit_size: int):
    path = save(tmp_path / "rows.arrow", rows(40), stream=stream)
    dataset = ingested(path, tmp_path / "out", unit_size=unit_size)
    assert texts(dataset) == [f"text {k}" for k in range(40)]
    assert dataset.table("examples")["position"].to_pylist() == [str(k) for k in range(1, 41)]


def test_a_large_batch_is_cut(tmp_path: Path):
    path = save(tmp_path / "rows.arrow", rows(1000), batch=1000)
    assert texts(ingested(path, tmp_path / "out", unit_size=1000)) == [f"text {k}" for k in range(1000)]


def test_no_rows(tmp_path: Path):
    for stream in (True, False):
        path = save(tmp_path / f"{stream}.arrow", rows(0), stream=stream)
        assert texts(ingested(path, tmp_path / f"out-{stream}")) == []


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_file_is_refused_or_saved_as_far_as_it_goes(tmp_path: Path, stream: bool):
    path = save(tmp_path / "rows.arrow", rows(40), stream=stream)
    data = path.read_bytes()
    for cut in (1, 8, 100, len(data) // 2, len(data) - 20):
        path.write_bytes(data[:-cut])
        with pytest.raises(SourceError, match=r"rows\.arrow"):
            ingested(path, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    if stream:
        path.write_bytes(data[: len(data) // 2])
        dataset = ingested(path, tmp_path / "out", salvage=True)
        kept = texts(dataset)
        assert 7 <= len(kept) < 40
        assert kept == [f"text {k}" for k in range(len(kept))]
        assert [json.loads(line)["reason"] for line in dataset.exclusions()] == ["damaged_input"]


def test_a_text_that_is_none_is_one_row(tmp_path: Path):
    table = rows(10)
    data = pa.array([b"text 0", b"\xff\xfe", *(b"text %d" % k for k in range(2, 10))])
    broken = pa.StringArray.from_buffers(10, data.buffers()[1], data.buffers()[2])
    path = save(tmp_path / "rows.arrow", table.set_column(0, "text", broken))
    dataset = ingested(path, tmp_path / "out")
    assert len(texts(dataset)) == 9
    (line,) = map(json.loads, dataset.exclusions())
    assert (line["position"], line["reason"]) == ("2", "invalid_utf8")


def test_offsets_that_lead_outside_are_refused(tmp_path: Path):
    path = save(tmp_path / "rows.arrow", pa.table({"text": ["abcd", "efgh", "ijkl"]}))
    offsets, wild = (b"".join(n.to_bytes(4, "little") for n in (0, 4, middle, 12)) for middle in (8, 1 << 30))
    data = path.read_bytes()
    assert data.count(offsets) == 1
    path.write_bytes(data.replace(offsets, wild))
    with pytest.raises(SourceError, match="its columns do not hold together behind row 0"):
        ingested(path, tmp_path / "out")
    assert [json.loads(line)["reason"] for line in ingested(path, tmp_path / "out", salvage=True).exclusions()] == [
        "damaged_input"
    ]


def test_a_column_twice_or_none_that_is_needed(tmp_path: Path):
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    with pytest.raises(SourceError, match="names a column twice"):
        ingested(save(tmp_path / "twice.arrow", twice), tmp_path / "out")
    with pytest.raises(SourceError, match=r"no column is known as text \(found: other\)"):
        ingested(save(tmp_path / "other.arrow", pa.table({"other": ["a"]})), tmp_path / "out")
    (tmp_path / "none.arrow").write_bytes(b"no arrow at all")
    with pytest.raises(SourceError, match=r"none\.arrow"):
        ingested(tmp_path / "none.arrow", tmp_path / "out")


def test_pictures_inside(tmp_path: Path):
    table = pa.table(
        {"image": [{"bytes": picture(), "path": None}, {"bytes": None, "path": "/etc/passwd"}], "caption": ["a", "b"]}
    )
    dataset = ingested(save(tmp_path / "rows.arrow", table), tmp_path / "out", format="caption")
    assert [len(e.images) for _, _, e in dataset.examples()] == [1]
    assert [json.loads(line)["reason"] for line in dataset.exclusions()] == ["path_outside"]
