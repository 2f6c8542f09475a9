"""MDS shards: bytes that are none, whatever they are, are told and never more than that. Real shards: tests/prepare/import_."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardkit.errors import SourceError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.prepare.ingest.containers import mds, mds_values
from shardkit.prepare.ingest.reasons import Bad
from shardkit.store import Dataset

ENCODINGS = (
    "bytes", "str", "int", "uint8", "float16", "float64", "str_int", "str_float", "str_decimal", "json", "jpeg", "png", "pil",
    "list[jpeg]", "list[pil]", "jpegarray", "ndarray", "ndarray:int16", "ndarray:float32:2,2",
)  # fmt: skip


def shard(samples: list[bytes], columns: dict[str, tuple[str, int | None]]) -> bytes:
    """A shard as the format describes it."""
    names = sorted(columns)
    head = json.dumps(
        {
            "column_names": names,
            "column_encodings": [columns[name][0] for name in names],
            "column_sizes": [columns[name][1] for name in names],
        }
    ).encode()
    offsets = [4 * (len(samples) + 2) + len(head)]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    return struct.pack(f"<{len(samples) + 2}I", len(samples), *offsets) + head + b"".join(samples)


def text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


def ingested(tmp_path: Path, data: bytes) -> Dataset:
    (tmp_path / "shard.mds").write_bytes(data)
    run(IngestConfig(format="text", paths=(tmp_path / "shard.mds",), output=tmp_path / "out"))
    return Dataset.open(tmp_path / "out")


def test_an_index_is_parsed_once_for_all_its_shards(tmp_path: Path, monkeypatch):
    data = shard([text("a")], {"text": ("str", None)})
    entry = {"format": "mds", "version": 2, "samples": 1, "zip_data": None}
    names = [f"shard.{k:05}.mds" for k in range(9)]
    for name in names:
        (tmp_path / name).write_bytes(data)
    shards = [{**entry, "raw_data": {"basename": name, "bytes": len(data), "hashes": {}}} for name in names]
    (tmp_path / mds.INDEX).write_text(json.dumps({"shards": shards}))
    read = mds.read_index
    parsed = []
    monkeypatch.setattr(mds, "read_index", lambda index: parsed.append(index) or read(index))
    result = run(IngestConfig(format="text", paths=(tmp_path,), output=None, dry_run=True))
    assert (result.tally.kept, len(parsed)) == (9, 1)


def test_samples_that_are_none_are_single_rows(tmp_path: Path):
    samples = [text("a"), b"\x09\0\0\0b", b"\0", text("c"), struct.pack("<I", 1) + b"\xff"]
    dataset = ingested(tmp_path, shard(samples, {"text": ("str", None)}))
    assert [e.text for _, _, e in dataset.examples()] == ["a", "c"]
    told = [(line["position"], line["reason"]) for line in map(json.loads, dataset.exclusions())]
    assert told == [("2", "wrong_type"), ("3", "wrong_type"), ("5", "invalid_utf8")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: b"", "0 bytes are no MDS shard"),
        (lambda data: data[:7], "7 bytes are no MDS shard"),
        (lambda data: b"\xff\xff\xff\xff" + data[4:], "too short for 4294967295 samples"),
        (lambda data: data + b"more", "do not fit"),
        (lambda data: data[:-1], "do not fit"),
        (lambda data: data[:4] + data[8:12] + data[4:8] + data[12:], "do not fit"),
        (lambda data: data.replace(b"column_names", b"column_n_mes"), "does not say what its columns are"),
        (lambda data: data.replace(b'"str"', b'"pkl"'), "pickled objects"),
        (lambda data: data.replace(b'"str"', b'"xyz"'), "the encoding xyz, which is not read"),
    ],
)
def test_shards_that_are_none_are_refused(tmp_path: Path, change, says: str):
    data = shard([text("a"), text("bc")], {"text": ("str", None)})
    with pytest.raises(SourceError, match=says):
        ingested(tmp_path, change(data))
    assert not (tmp_path / "out").exists()


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(ENCODINGS), st.binary(max_size=40))
def test_any_bytes_are_a_value_or_told(encoding: str, data: bytes):
    assert mds_values.known(encoding)
    try:
        mds_values.decoded(encoding, data)
    except Bad as bad:
        told = (bad.reason, bad.detail)
        assert all(told)


@pytest.mark.parametrize(
    "encoding", ["pkl", "", "ndarray:int", "ndarray:object", "ndarray:int16:0", "str:3", "list[pkl]"]
)
def test_encodings_that_are_not_read(encoding: str):
    assert not mds_values.known(encoding)
