"""The command: what it prints, where, and with which exit code."""

from __future__ import annotations

import json

import pytest

from shardkit.cli import run
from tests.prepare.ingest.builders import jsonl


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "in" / "rows.jsonl"
    path.parent.mkdir()
    path.write_bytes(jsonl([{"text": "one"}, {"text": 2}, {"text": "three"}]))
    return path


def call(capsys, *words: object) -> tuple[int, str, str]:
    code = run([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_stdout_is_the_path_and_id_and_stderr_the_accounts(capsys, tmp_path, rows):
    code, out, err = call(capsys, "ingest", "rows", rows, "-o", tmp_path / "out", "--workers", 1)
    dataset = json.loads((tmp_path / "out" / "manifest.json").read_bytes())["dataset_id"]
    assert (code, out) == (0, f"{tmp_path / 'out'}\t{dataset}\n")
    assert "read 3 = kept 2 + excluded 1" in err
    assert "excluded 1: wrong_type" in err
    code, again, err = call(capsys, "ingest", "rows", rows, "-o", tmp_path / "out", "--workers", 1)
    assert (code, again) == (0, out)
    assert "unchanged" in err


def test_the_accounts_of_each_input_are_printed(capsys, tmp_path, rows):
    (rows.parent / "b.jsonl").write_bytes(jsonl([{"text": "four"}]))
    _, _, err = call(capsys, "ingest", "rows", rows.parent, "-o", tmp_path / "out", "--workers", 1)
    assert err.splitlines()[-2:] == [
        "  rows.jsonl: read 3 = kept 2 + excluded 1 (wrong_type 1)",
        "  b.jsonl: read 1 = kept 1 + excluded 0",
    ]
    for number in range(20):
        (rows.parent / f"c{number}.jsonl").write_bytes(jsonl([{"text": f"more {number}"}]))
    _, _, err = call(capsys, "ingest", "rows", rows.parent, "-o", tmp_path / "many", "--workers", 1)
    assert err.splitlines()[-2:] == [
        "  rows.jsonl: read 3 = kept 2 + excluded 1 (wrong_type 1)",
        "  the accounts of all 22 inputs are in tables/inputs.parquet",
    ]


def test_json_is_one_object(capsys, tmp_path, rows):
    code, out, err = call(
        capsys, "ingest", "rows", rows, "-o", tmp_path / "out", "--workers", 1, "--json", "--quiet", "--source", "s"
    )
    summary = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert summary == {
        "dataset": str(tmp_path / "out"), "id": summary["id"], "unchanged": False, "read": 3, "kept": 2, "excluded": 1,
        "excluded_by_reason": {"wrong_type": 1}, "changes": {}, "images": 0, "ignored_files": 0, "bytes": 8 + 2 * (2 + 32), "format": "rows",
    }  # fmt: skip


def test_a_dry_run_needs_no_output_and_everything_else_does(capsys, rows):
    code, out, _ = call(capsys, "ingest", "rows", rows, "--dry-run", "--workers", 1, "--json")
    assert (code, json.loads(out)["kept"], json.loads(out)["dataset"]) == (0, 2, None)
    code, out, err = call(capsys, "ingest", "rows", rows)
    assert (code, out) == (3, "")
    assert err.splitlines()[1].startswith("Next: give -o")


def test_auto_says_what_it_finds_and_alone_writes_nothing(capsys, tmp_path, rows):
    assert call(capsys, "ingest", "auto", rows) == (0, "text\n", "detected: text\n")
    assert call(capsys, "ingest", "auto", rows, "--json", "--quiet") == (0, '{"format":"text"}\n', "")
    code, out, err = call(capsys, "ingest", "auto", rows, "-o", tmp_path / "out", "--workers", 1, "--json")
    assert (code, json.loads(out)["format"], json.loads(out)["kept"]) == (0, "text", 2)
    assert err.startswith("detected: text\n")
    (tmp_path / "other").mkdir()
    code, out, err = call(capsys, "ingest", "auto", tmp_path / "other")
    assert (code, out) == (4, "")
    assert "no known format" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("ingest", "row", "x"), 2, "'row'"),
        (("ingest", "rows"), 2, "PATH"),
        (("ingest", "rows", "x", "-o", "y", "--max-bad", "2"), 2, "max-bad"),
        (("ingest", "rows", "nowhere", "-o", "y"), 4, "nowhere"),
        (("ingest", "rows", "{rows}", "-o", "y", "--field", "image=x"), 3, "text, images"),
        (("ingest", "rows", "{rows}", "-o", "y", "--field", "text"), 3, "NAME=VALUE"),
        (("ingest", "rows", "{rows}", "-o", "y", "--group-by", "@page"), 3, "@domain"),
        (("ingest", "rows", "{rows}", "-o", "y", "--images", "{rows}"), 3, "--images"),
        (("ingest", "rows", "{rows}", "-o", "y", "--on-missing-image", "drop-image"), 3, "drop-document"),
        (("ingest", "rows", "{rows}", "-o", "{rows}"), 8, "rows.jsonl"),
    ],
)
def test_errors(capsys, rows, words, code, says):
    got, out, err = call(capsys, *(word.replace("{rows}", str(rows)) for word in words))
    assert (got, out) == (code, "")
    assert says in err
    assert "Traceback" not in err


def test_a_dataset_of_nothing_commits_and_says_so_even_when_asked_to_be_quiet(capsys, tmp_path, rows):
    rows.write_bytes(jsonl([{"text": 1}, {"text": None}]))
    code, _, err = call(capsys, "ingest", "rows", rows, "-o", tmp_path / "out", "--workers", 1, "--quiet")
    told = "Warning: nothing was kept, every record is excluded; the first: rows.jsonl:1: "
    assert (code, err) == (0, told + "field text is of type int, not a text (wrong_type)\n")
    _, _, err = call(capsys, "ingest", "rows", rows, "--dry-run", "--workers", 1, "--quiet")
    assert err == "Warning: nothing was kept, every record is excluded; --on-error fail names the first one\n"
    rows.write_bytes(b"\n")
    code, _, err = call(capsys, "ingest", "rows", rows, "-o", tmp_path / "none", "--workers", 1, "--quiet")
    assert (code, err) == (0, "Warning: nothing was kept, for the input holds no records\n")
