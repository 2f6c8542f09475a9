"""export and import, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.store import Dataset
from tests.prepare.builders import example, png, write

PREPARED = Path(__file__).resolve().parent.parent / "data" / "prepared"


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    write(tmp_path / "d", [example(f"t {k}", png(k, note="a comment" if k == 3 else None)) for k in range(6)])
    return tmp_path / "d"


def json_of(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict:
    assert run([*map(str, arguments), "--json", "--workers", "1"]) == code
    return orjson.loads(capsys.readouterr().out)


def test_export_says_what_differs(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "out"
    assert run(["export", str(dataset), "--format", "jsonl", "-o", str(out), "--workers", "1"]) == 0
    said, err = capsys.readouterr()
    assert said == f"{out}\t{Dataset.open(dataset).id}\n"
    assert err.splitlines()[0].startswith("6 examples; 1 files, ")
    assert err.splitlines()[1].startswith("1 of them get another example id when they are read again")
    found = json_of(capsys, "export", dataset, "--format", "jsonl", "-o", out)
    assert (found["unchanged"], found["other_ids"], found["by_split"], found["format"]) == (
        True,
        1,
        {"all": 6},
        "jsonl",
    )
    assert (
        run(["export", str(dataset), "--format", "jsonl", "-o", str(tmp_path / "quiet"), "--quiet", "--workers", "1"])
        == 0
    )
    assert capsys.readouterr().err == ""


def test_a_dry_run_of_each_writes_nothing(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = sorted(tmp_path.rglob("*"))
    assert json_of(capsys, "export", dataset, "--format", "hf", "--dry-run")["export"] is None
    assert json_of(capsys, "export", dataset, "--self-contained", "--dry-run")["dataset"] is None
    found = json_of(capsys, "import", "--from", "mds", PREPARED / "mds", "--dry-run")
    assert (found["dataset"], found["read"], found["format"]) == (None, 12, "caption")
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_missing_or_wrong(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "dump").mkdir()
    for arguments, code, says in (
        (["export", dataset, "--format", "hf"], 3, "there is no output"),
        (["export", dataset, "--format", "xml", "-o", tmp_path / "x"], 2, "'xml' is not one of"),
        (["export", dataset, "--format", "hf", "--split", "dev", "-o", tmp_path / "x"], 3, "no split 'dev'"),
        (["export", dataset, "--self-contained", "--split", "all", "-o", tmp_path / "x"], 3, "has all splits"),
        (["export", dataset, "--format", "hf", "--published", "soon", "-o", tmp_path / "x"], 3, "is no date"),
        (["export", tmp_path / "nothing", "--format", "hf", "-o", tmp_path / "x"], 4, "no dataset is here"),
        (["import", PREPARED / "mds", "-o", tmp_path / "x"], 2, "Missing option '--from'"),
        (["import", "--from", "mds", PREPARED / "mds"], 3, "there is no output"),
        (["import", "--from", "mds", dataset, "-o", tmp_path / "x"], 4, "this is a dataset, not a dump"),
        (["import", "--from", "mds", tmp_path / "dump", "-o", tmp_path / "x"], 4, "there is no index.json here"),
        (["import", "--from", "mds", PREPARED / "mds-pickled", "-o", tmp_path / "x"], 4, "pickled objects"),
        (["import", "--from", "hf", tmp_path, "-o", tmp_path / "x"], 8, "lie in each other"),
    ):
        assert run([*map(str, arguments)]) == code, arguments
        err = capsys.readouterr().err
        assert says in err
        assert "Traceback" not in err
    assert not (tmp_path / "x").exists()


def test_import_says_what_it_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "d"
    assert run(["import", "--from", "mds", str(PREPARED / "mds"), "-o", str(out), "--workers", "1"]) == 0
    said, err = capsys.readouterr()
    assert said == f"{out}\t{Dataset.open(out).id}\n"
    assert err.splitlines()[0] == "rows read as: caption"
    assert "read 12 = kept 12 + excluded 0" in err.splitlines()[1]
    found = json_of(capsys, "import", "--from", "mds", PREPARED / "mds", "-o", out)
    assert (found["unchanged"], found["kept"]) == (True, 12)
