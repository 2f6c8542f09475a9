"""What others read: Arrow shards with plain pyarrow and Hugging Face datasets, tar shards with webdataset."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.journey.road import content, ingest_captions, shardkit

COLUMNS = ["example_id", "source", "group", "segments", "images", "relations", "metadata"]


@pytest.fixture(scope="module")
def tars(once: Callable[..., Path], sample: Path) -> Path:
    def make(folder: Path) -> None:
        shardkit(*ingest_captions(sample, folder / "captions"), "--shards", "tar")

    return once("tars", make) / "captions"


def rows_by_pyarrow(dataset: Path) -> list[dict]:
    rows = []
    for path in sorted((dataset / "shards").rglob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            assert table.schema.names == COLUMNS
            rows += table.to_pylist()
    return rows


def test_plain_pyarrow(captions: Path):
    rows = rows_by_pyarrow(captions)
    assert len(rows) == 62
    assert all(row["images"][0]["bytes"][:2] in (b"\xff\xd8", b"\x89P") for row in rows)
    assert all(any(segment["text"] for segment in row["segments"]) for row in rows)


def outside(script: str, *arguments: object) -> dict:
    """Run a script in a process of its own: another library's warnings and caches stay out of this one."""
    command = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


HUGGING_FACE = """
import json, os, sys
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=sys.argv[1])
import datasets
rows = datasets.load_dataset("arrow", data_files=sys.argv[2:], split="train")
print(json.dumps({"columns": rows.column_names, "ids": rows["example_id"][:], "sizes": [len(r["images"][0]["bytes"]) for r in rows]}))
"""


def test_hugging_face_datasets(captions: Path, tmp_path):
    shards = sorted((captions / "shards").rglob("*.arrow"))
    seen = outside(HUGGING_FACE, tmp_path, *shards)
    rows = rows_by_pyarrow(captions)
    assert seen["columns"] == COLUMNS
    assert seen["ids"] == [row["example_id"] for row in rows]
    assert seen["sizes"] == [len(row["images"][0]["bytes"]) for row in rows]


WEBDATASET = """
import json, sys
import webdataset
rows = list(webdataset.WebDataset(sys.argv[1:], shardshuffle=False, empty_check=False))
print(json.dumps([[row["__key__"], sorted(k for k in row if not k.startswith("__")), json.loads(row["json"])["example_id"],
                   len(next(row[k] for k in row if k.startswith("0.")))] for row in rows]))
"""


def test_public_webdataset(captions: Path, tars: Path):
    shards = sorted((tars / "shards").rglob("*.tar"))
    seen = outside(WEBDATASET, *shards)
    rows = rows_by_pyarrow(captions)
    assert [row[2] for row in seen] == [row["example_id"] for row in rows]
    assert [row[3] for row in seen] == [len(row["images"][0]["bytes"]) for row in rows]
    for key, members, example_id, _ in seen:
        assert key.endswith(f"-{example_id}")
        assert members in (["0.jpg", "json"], ["0.png", "json"])


def test_arrow_and_tar_hold_the_same_examples(captions: Path, tars: Path):
    arrow = json.loads(shardkit("stats", captions, "--json").stdout)
    tar = json.loads(shardkit("stats", tars, "--json").stdout)
    assert arrow["by_source"] == tar["by_source"]
    shardkit("verify", tars, "--deep")


def test_tar_shards_are_equal_each_time(tars: Path, sample: Path, tmp_path):
    shardkit(*ingest_captions(sample, tmp_path / "again"), "--shards", "tar", "--workers", 2)
    assert content(tmp_path / "again") == content(tars)
