"""What a user sees when something is wrong: one message with what and where, a `Next:` line, the right code."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.journey.road import Road, ingest_lines, shardkit, split


def told(*arguments: object, code: int) -> str:
    """stderr of a command that must fail: two lines, the second begins with `Next: `."""
    said = shardkit(*arguments, code=code)
    assert said.stdout == ""
    lines = said.stderr.strip().splitlines()
    assert len(lines) == 2, said.stderr
    assert lines[1].startswith("Next: ")
    return said.stderr


def test_a_missing_path(tmp_path):
    said = told("ingest", "ocr", tmp_path / "nowhere", "-o", tmp_path / "out", code=4)
    assert "nowhere" in said
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_dataset_that_is_none(tmp_path):
    assert str(tmp_path) in told("verify", tmp_path, code=4)


def test_an_unreadable_file(tmp_path, sample):
    if os.geteuid() == 0:
        pytest.skip("unavailable: a file that the superuser cannot read")
    file = tmp_path / "pairs.csv"
    file.write_text("image,caption\na.png,hello\n")
    file.chmod(0)
    assert "pairs.csv" in told("ingest", "caption", file, "-o", tmp_path / "out", code=4)


def test_a_table_that_cannot_be_opened(tmp_path):
    # The injected variant of an unreadable file: a folder where a file must be, which nobody can read as one.
    folder = tmp_path / "pairs.csv"
    folder.mkdir()
    assert "pairs.csv" in told("ingest", "caption", folder, "-o", tmp_path / "out", code=4)


def test_an_unknown_column(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("picture,words\na.png,hello\n")
    said = told("ingest", "caption", file, "-o", tmp_path / "out", code=4)
    assert "picture" in said, "the columns that are there are named"
    assert "words" in said
    assert "--field" in said


def test_a_field_that_maps_to_no_column(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("picture,words\na.png,hello\n")
    said = told(
        "ingest", "caption", file, "--field", "image=foto", "--field", "text=words", "-o", tmp_path / "out", code=4
    )
    assert "foto" in said
    assert "picture" in said


def rows_with_one_bad(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one"}\n{"text": 2\n{"text": "three"}\n')
    return file


def test_a_bad_row_is_excluded_with_its_line(tmp_path):
    said = shardkit("ingest", "rows", rows_with_one_bad(tmp_path), "-o", tmp_path / "out", "--json")
    summary = json.loads(said.stdout)
    assert (summary["read"], summary["kept"], summary["excluded"]) == (3, 2, 1)
    assert sum(summary["excluded_by_reason"].values()) == 1


def test_a_bad_row_stops_where_that_was_asked(tmp_path):
    said = told("ingest", "rows", rows_with_one_bad(tmp_path), "-o", tmp_path / "out", "--on-error", "fail", code=4)
    assert "rows.jsonl:2" in said
    assert "--on-error exclude" in said
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_too_many_bad_rows_commit_nothing(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join('{"text": "a"}\n' if n % 10 else "broken\n" for n in range(2000)))
    said = told("ingest", "rows", file, "-o", tmp_path / "out", code=4)
    assert "--max-bad" in said
    assert "200" in said
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_an_existing_output(tmp_path, sample, lines: Path):
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("dear")
    assert "letter.txt" in told(*ingest_lines(sample, foreign), code=8)
    assert [path.name for path in foreign.iterdir() if path.name != ".lock"] == ["letter.txt"]
    said = told(*ingest_lines(sample, lines), "--revision", "other", code=8)
    assert "revision" in said
    assert "--overwrite" in said


def test_output_inside_an_input(lines: Path):
    inside = lines / "split"
    told(*split(lines, inside), code=8)
    assert not inside.exists()


def test_ratios_that_are_none(lines: Path, tmp_path):
    said = told("split", lines, "-o", tmp_path / "out", "--ratios", "train=0.9,val=0.9", code=3)
    assert "--ratios" in said


def test_a_damaged_shard(lines: Path, tmp_path):
    out = tmp_path / "lines"
    shutil.copytree(lines, out)
    shard = sorted((out / "shards").rglob("*.arrow"))[2]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(data)
    said = told("verify", out, code=5)
    assert shard.name in said


def test_a_state_that_does_not_fit(road: Road, tmp_path):
    out = tmp_path / "run"
    common = ["train", "--task", "vlm-align", "--data", road.stages["tokens"], "--out", out]
    shardkit(*common, "--steps", 1)
    said = told(*common, "--steps", 2, "--resume", "--seed", 7, code=7)
    assert "seed" in said


def test_an_unknown_option_is_a_usage_error(tmp_path):
    assert shardkit("split", tmp_path, "--nonsense", code=2).stderr.startswith("Usage:")


@pytest.mark.parametrize(
    "name", ["ingest", "dedup", "split", "tokenize", "plan", "train", "verify", "audit", "stats", "head"]
)
def test_help_needs_no_dataset(name):
    assert "Usage:" in shardkit(name, "--help").stdout
