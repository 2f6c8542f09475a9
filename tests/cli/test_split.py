"""`shardkit split` on the command line: what it prints, what it refuses, with which code."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from tests.prepare.builders import example, write
from tests.prepare.split.builders import books


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        example(f"{row.text} and some more words", group=row.group, source=row.source, date=f"2021-06-{k % 30 + 1:02}")
        for k, row in enumerate(books(40))
    ]
    write(tmp_path / "a", rows)
    return tmp_path


def test_the_report_goes_to_stderr_and_the_dataset_to_stdout(data: Path, capsys: pytest.CaptureFixture[str]):
    command = ["split", f"{data}/a", "-o", f"{data}/s", "--ratios", "train=0.8,val=0.1,test=0.1", "--workers", "1"]
    assert run([*command, "--shard-size", "700"]) == 0
    out, err = capsys.readouterr()
    path, dataset_id = out.rstrip("\n").split("\t")
    assert path == f"{data}/s"
    assert len(dataset_id) == 64
    lines = err.splitlines()
    assert lines[0] == "read 120 examples, kept 120, excluded 0"
    assert lines[1] == "40 components of 40 declared groups (0 join several), 0 examples without a key, 0 near pairs"
    assert [line.split()[0] for line in lines[2:5]] == ["train", "val", "test"]
    assert "(asked 80.00%, +0.00%); worst prefix of" in lines[2]
    assert any(line.startswith("  source even: train ") for line in lines)
    assert any(line.startswith("  language en: train ") for line in lines)


def test_json_has_the_whole_report(data: Path, capsys: pytest.CaptureFixture[str]):
    assert (
        run(
            ["split", f"{data}/a", "--ratios", "train=0.5,test=0.5", "--exact", "--dry-run", "--json", "--workers", "1"]
        )
        == 0
    )
    found = orjson.loads(capsys.readouterr().out)
    assert found["dataset"] is None
    assert found["splits"]["test"] == {
        "asked": 0.5, "share": 0.5, "deviation": 0.0, "examples": 60, "groups": 20,
    }  # fmt: skip
    assert set(found["by_source"]["odd"]["train"]) == {"examples", "groups", "share", "deviation"}
    assert set(found["by_language"]) == {"en"}
    assert found["prefixes"]["train"]["shards"] == 1


def test_time_and_like_and_what_does_not_go_together(data: Path, capsys: pytest.CaptureFixture[str]):
    by_time = ["split", f"{data}/a", "-o", f"{data}/s", "--split-by-time", "date", "--workers", "1"]
    assert run([*by_time, "--cutoff", "val=2021-06-11", "--cutoff", "test=2021-06-21"]) == 0
    assert "warning: examples older than their split begins" in capsys.readouterr().err
    assert run(["split", f"{data}/a", "-o", f"{data}/t", "--like", f"{data}/s", "--workers", "1"]) == 0
    capsys.readouterr()
    for options, code, what in [
        ([], 2, "Missing option '--ratios', '--split-by-time' or '--like'"),
        (["--split-by-time", "date"], 3, "--split-by-time FIELD and --cutoff DATE belong together"),
        (["--cutoff", "2021", "--ratios", "a=1"], 3, "--split-by-time FIELD and --cutoff DATE belong together"),
        (["--split-by-time", "date", "--cutoff", "soon"], 3, "--cutoff 'soon' is no time"),
        (["--split-by-time", "date", "--cutoff", "train=2021"], 3, "'train' cannot begin a split"),
        (["--split-by-time", "date", "--cutoff", "2021", "--exact"], 3, "leave one of the two out"),
        (["--ratios", "train=0.5,test=0.5", "--parents", f"{data}/s"], 3, "--parents names a dataset that is split"),
        (
            ["--ratios", "train=0.5,test=0.5", "--parent-field", "of"],
            3,
            "no example names what it was made from in a metadata field 'of'",
        ),
    ]:
        assert run(["split", f"{data}/a", "-o", f"{data}/x", "--workers", "1", *options]) == code, options
        assert what in capsys.readouterr().err
        assert not (Path(f"{data}/x") / "manifest.json").exists()
