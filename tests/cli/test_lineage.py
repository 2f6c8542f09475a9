"""`shardkit trace` and `shardkit forget`: options, what is printed where, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from shardkit.cli import run
from shardkit.digest import sha256
from shardkit.store.dataset import Dataset
from tests.prepare.builders import example, png, write

ROWS = [example("one", png(1), source="web"), example("two", png(2), source="web"), example("three", source="notes")]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write(tmp_path / "set", ROWS, licences={0: "CC0", 1: "CC-BY"}, recipe={"source": "web"}).path


def shardkit(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run([str(one) for one in arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_trace_prints_the_chain(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shardkit(capsys, "trace", dataset, ROWS[0].example_id[:8])
    assert err == ""
    assert f"example {ROWS[0].example_id} of web, all" in out
    assert "from rows.jsonl:1" in out
    assert f"digest: digest sha256:{sha256(png(1))}, licence CC0" in out
    out, _ = shardkit(capsys, "trace", dataset, "--source", "rows.jsonl:3")
    assert out.startswith(f"rows.jsonl:3\n  example {ROWS[2].example_id}\n    ingest: kept, all, shards/")


def test_trace_as_json(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shardkit(capsys, "trace", dataset, sha256(png(2)), "--json")
    found = orjson.loads(out)
    assert (found["kind"], found["id"]) == ("asset", Dataset.open(dataset).id)
    assert found["assets"][0]["provenance"][0]["licence"] == "CC-BY"
    out, _ = shardkit(capsys, "trace", dataset, "--source", "rows.jsonl:2", "--json")
    assert orjson.loads(out)["rows"][0]["example_id"] == ROWS[1].example_id


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "give an id or --source FILE:ROW"),
        (["abcdef0123", "--source", "rows.jsonl:1"], 2, "not both"),
        (["abcdef0123"], 3, "nothing has the id abcdef0123"),
        (["--source", "rows.jsonl:9"], 3, "has no such row"),
        (["0" * 32 + "/0/0/0of1"], 3, "holds no sequences"),
    ],
)
def test_trace_says_what_is_wrong(
    dataset: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    out, err = shardkit(capsys, "trace", dataset, *arguments, code=code)
    assert out == ""
    assert says in err


def test_forget_prints_the_dataset_and_tells_the_proof(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = shardkit(capsys, "forget", dataset, "--licence", "CC0", "-o", tmp_path / "out", "--also", tmp_path)
    assert out == f"{tmp_path / 'out'}\t{Dataset.open(tmp_path / 'out').id}\n"
    assert "  excluded 1: forgotten_licence" in err
    assert "proved: none of it in 2 examples, 1 pictures" in err
    assert f"still held: {dataset}\t" in err
    out, err = shardkit(
        capsys, "forget", dataset, "--licence", "CC0", "-o", tmp_path / "out", "--json", "--quiet", "--also", tmp_path
    )
    found: dict[str, Any] = orjson.loads(out)
    assert (found["unchanged"], found["kept"], found["assets"]) == (True, 2, 1)
    assert [one["path"] for one in found["also"]] == [str(dataset)]
    assert err == f"still held: {dataset}\t{Dataset.open(dataset).id}\t1 pictures, 1 examples\n"


def test_a_dry_run_writes_nothing(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(tmp_path.rglob("*"))
    out, err = shardkit(capsys, "forget", dataset, "--source", "notes", "--asset", sha256(png(1))[:9], "--dry-run")
    assert out.splitlines()[0] == "read 3 examples, kept 1, excluded 2"
    assert err == ""
    assert sorted(tmp_path.rglob("*")) == before
    _, err = shardkit(capsys, "forget", dataset, "--dry-run", code=3)
    assert "nothing is named that is to be forgotten" in err
