"""select, concat, shrink and a grown dump as a user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    rows = [example(f"row {k}", png(k, side=8 + k), score=k / 10, source="s") for k in range(6)]
    write(tmp_path / "a", [*rows, example("no picture", source="t")], looks=True)
    return tmp_path / "a"


def test_select_says_what_each_part_leaves_out(dataset: Path, capsys: pytest.CaptureFixture[str]):
    out = dataset.parent / "b"
    arguments = ["select", str(dataset), "--where", "width >= 10 and score < 0.5", "--workers", "1"]
    assert run([*arguments, "--dry-run"]) == 0
    table = [
        "read 7 examples, kept 3, excluded 4",
        "          2 do not hold,         1 cannot be told: width >= 10",
        "          1 do not hold,         0 cannot be told: score < 0.5",
        "  s: kept 3 of 6",
        "  t: kept 0 of 1",
    ]
    assert capsys.readouterr().out.splitlines() == table
    assert not out.exists()
    assert run([*arguments, "-o", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}\t{Dataset.open(out).id}\n"
    assert captured.err.splitlines() == table
    assert run([*arguments, "-o", str(out), "--json", "--quiet"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["unchanged"], found["id"]) == (True, Dataset.open(out).id)
    assert found["excluded_by_reason"] == {"not_selected": 3, "not_selected_unknown": 1}
    assert found["conditions"][0] == {"condition": "width >= 10", "false": 2, "unknown": 1}


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("widht > 3", "widht is neither a column nor a metadata field of the first rows; did you mean width?"),
        ("width > 'a'", "width > 'a' compares a number with text"),
        ("__import__('os')", "character 11 begins what has no place there: ('os')"),
        ("metadata.x > 1", "no example has a metadata field 'x'"),
    ],
)
def test_a_wrong_condition_is_a_setting(dataset: Path, capsys: pytest.CaptureFixture[str], where: str, told: str):
    assert run(["select", str(dataset), "--where", where, "-o", str(dataset.parent / "b"), "--workers", "1"]) == 3
    error = capsys.readouterr().err
    assert told in error
    assert "Next: " in error
    assert not (dataset.parent / "b").exists()


def test_select_without_an_output_is_refused(dataset: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["select", str(dataset), "--where", "width > 1"]) == 3
    assert "there is no output" in capsys.readouterr().err


def test_help_lists_every_column(capsys: pytest.CaptureFixture[str]):
    assert run(["select", "--help"]) == 0
    text = capsys.readouterr().out
    for name in ("width", "aspect", "text_length", "language", "licence", "confidence", "class", "has_gps", "metadata"):
        assert name in text


def test_concat_names_what_it_joined(dataset: Path, capsys: pytest.CaptureFixture[str]):
    work = dataset.parent
    write(work / "other", [example("other")])
    assert run(["concat", str(dataset), f"{work}/other", "-o", f"{work}/c"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{work}/c\t{Dataset.open(work / 'c').id}\n"
    assert captured.err.splitlines() == ["8 examples in 2 shards of the inputs", "  all: 8"]
    assert run(["concat", str(dataset), f"{work}/other", "--dry-run", "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["dataset"], found["kept"], found["shards"]) == (None, 8, 2)
    assert run(["split", str(dataset), "-o", f"{work}/s", "--ratios", "x=0.5,y=0.5", "--workers", "1", "--quiet"]) == 0
    assert run(["concat", f"{work}/s", f"{work}/other", "-o", f"{work}/d"]) == 3
    error = capsys.readouterr().err  # which of the two is named first, their ids decide
    assert re.search(r"/s has (the splits )?x, y", error)
    assert re.search(r"/other has (the splits )?all", error)


def test_shrink_says_how_much_smaller(dataset: Path, capsys: pytest.CaptureFixture[str]):
    out = dataset.parent / "b"
    assert run(["shrink", str(dataset), "--max-side", "10", "-o", str(out), "--workers", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}\t{Dataset.open(out).id}\n"
    assert captured.err.splitlines()[0] == "7 examples, 3 of 6 pictures made smaller"
    assert captured.err.splitlines()[2:] == ["          3 image/png to image/png"]
    assert run(["shrink", str(dataset), "--max-side", "10", "--dry-run", "--json", "--workers", "1"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["dataset"], found["shrunk"], found["images"]) == (None, 3, 6)
    assert run(["shrink", str(dataset), "--max-side", "0", "-o", str(out)]) == 2


def test_a_grown_dump_is_joined_to_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "a.jsonl").write_text(json.dumps({"text": "one"}) + "\n")
    common = ["--workers", "1", "--quiet"]
    assert run(["ingest", "rows", str(dump), "-o", f"{tmp_path}/old", *common]) == 0
    (dump / "b.jsonl").write_text(json.dumps({"text": "two"}) + "\n")
    new = ["ingest", "rows", str(dump), "-o", f"{tmp_path}/new", "--new-since", f"{tmp_path}/old", *common]
    capsys.readouterr()
    assert run([*new, "--json"]) == 0
    assert orjson.loads(capsys.readouterr().out)["read"] == 1
    assert run(["concat", f"{tmp_path}/old", f"{tmp_path}/new", "-o", f"{tmp_path}/all", "--quiet"]) == 0
    assert {e.text for _, _, e in Dataset.open(tmp_path / "all").examples()} == {"one", "two"}
    (dump / "a.jsonl").write_text(json.dumps({"text": "another"}) + "\n")
    assert run([*new[:4], f"{tmp_path}/more", *new[5:]]) == 4
    assert "inputs that are in the older dataset are others now, or gone: a.jsonl" in capsys.readouterr().err
