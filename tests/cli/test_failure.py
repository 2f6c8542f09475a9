"""With --json a failure is an object on stdout, too, whatever failed; stderr says the same in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.cli import Terminated, run
from shardkit.cli.failure import report_stop
from tests.prepare.builders import example, png, write


def failed(capsys: pytest.CaptureFixture[str], *words: object, code: int) -> tuple[dict, str]:
    """The object and the words of a command that must fail."""
    assert run([*map(str, words), "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_an_error_is_an_object_with_the_words_of_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found, said = failed(capsys, "stats", tmp_path, code=4)
    error = found["error"]
    assert (error["kind"], error["exit_code"], error["where"]) == ("SourceError", 4, str(tmp_path))
    assert said == f"{error['where']}: {error['what']}\nNext: {error['next']}\n"
    assert found == {"error": error}
    assert run(["stats", str(tmp_path)]) == 4
    assert capsys.readouterr() == ("", said)


def test_a_usage_error_names_the_help_of_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found, said = failed(capsys, "split", tmp_path, "--ratio", "train=1", code=2)
    assert "'--ratios'" in found["error"]["what"]
    assert found["error"]["next"] == "`shardkit split --help` shows how it is used"
    assert said.startswith("Usage: ")
    assert failed(capsys, "tokenizer", "trian", tmp_path, code=2)[0]["error"]["next"].startswith("`shardkit tokenizer ")


def test_findings_have_the_error_beside_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dataset = write(tmp_path / "a", [example("t", png(1))])
    assert run(["verify", str(tmp_path / "a"), "--workers", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["error"] is None
    shard = dataset.shards[0].path
    shard.write_bytes(shard.read_bytes() + b"\0")
    found, said = failed(capsys, "verify", tmp_path / "a", "--workers", "1", code=5)
    assert (found["ok"], found["error"]["kind"], len(found["problems"])) == (False, "IntegrityError", 1)
    assert f"Next: {found['error']['next']}\n" in said


@pytest.mark.parametrize(
    ("stop", "code", "word"), [(KeyboardInterrupt, 130, "interrupted"), (Terminated, 143, "terminated")]
)
def test_what_was_stopped_says_how_it_goes_on(stop, code, word, tmp_path, monkeypatch, capsys):
    def stopped(*_):
        raise stop

    monkeypatch.setattr("shardkit.cli.split.run", stopped)
    words = ["split", tmp_path / "a b", "-o", tmp_path / "c", "--ratios", "train=1"]
    found, said = failed(capsys, *words, code=code)
    command = f"shardkit split '{tmp_path}/a b' -o {tmp_path}/c --ratios train=1 --json"
    assert found["error"] == {"kind": "Stopped", "exit_code": code, "what": word, "where": "",
                              "next": f"this command goes on where it stopped: {command}"}  # fmt: skip
    assert said.lstrip() == f"{word}\nNext: {found['error']['next']}\n"
    monkeypatch.setattr("shardkit.cli.stats.run", stopped)
    assert failed(capsys, "stats", "a", code=code)[0]["error"]["next"] == ("to begin again: shardkit stats a --json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dedup a --out=c", "this command goes on where it stopped"),
        ("dedup a -oc", "this command goes on where it stopped"),
        ("train --out=run", "this command goes on where it stopped"),
        ("dedup a -o c --dry-run", "to begin again"),
        ("padding a --max-tokens 9", "to begin again"),
    ],
)
def test_what_goes_on_is_what_has_an_output_however_it_is_written(words, said, capsys):
    report_stop("interrupted", 130, words.split(), as_json=False)
    assert f"Next: {said}: shardkit {words}" in capsys.readouterr().err


def test_a_command_that_is_nearly_right_is_guessed(capsys: pytest.CaptureFixture[str]):
    assert run(["ingets"]) == 2
    assert "No such command 'ingets' (did you mean ingest?)." in capsys.readouterr().err
    assert run(["ingest", "captions", "a.csv"]) == 2
    assert "(did you mean caption?)" in capsys.readouterr().err
    assert run(["dedup", "a", "--level", "exakt", "--dry-run"]) == 3
    assert capsys.readouterr().err.endswith("Next: choose with --level (did you mean exact?)\n")


STAGES = {
    "select": ["--where", "images > 0"],
    "export": ["--format", "jsonl"],
    "report": ["--no-audit"],
    "tokenizer train": [],
}
"""One of each kind of output."""


@pytest.mark.parametrize("name", STAGES)
def test_an_output_in_a_dataset_or_over_everything_is_refused(name, tmp_path, capsys):
    write(tmp_path / "a", [example("some text here", png(1))])
    write(tmp_path / "b", [example("t")])
    (tmp_path / "file").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    for output, says in {
        tmp_path / "b" / "deep" / "c": f"the output lies in the dataset {tmp_path.resolve()}/b",
        tmp_path / "file" / "c": "a file is here, where a folder has to be (EEXIST)",
        Path("/"): "",  # the input lies in it
    }.items():
        assert run([*name.split(), str(tmp_path / "a"), *STAGES[name], "-o", str(output), "--workers", "1"]) == 8
        said = capsys.readouterr().err
        assert said.startswith((f"{output}: {says}", f"{output.parent}: {says}"))
        assert said.endswith("\nNext: choose another place with -o\n")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("words", [
    ["head", "a", "-n"], ["plan", "a", "--max-tokens"], ["plan", "a", "--epoch"], ["split", "a", "--ratios", "train=1", "--frequent-asset-limit"],
    ["ingest", "ocr", "a", "--dry-run", "--unit-size"], ["train", "--task", "lm", "--data", "a", "--steps", "1", "--out", "b", "--warmup"],
], ids=" ".join)  # fmt: skip
def test_a_number_beyond_all_counting_is_a_usage_error(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([*words, str(10**15 + 1)]) == 2
    assert capsys.readouterr().err.endswith("1000000000000001 is above 1000000000000000, which is the most.\n")
    assert run([*words, str(10**15)]) == 4, "nothing is here"


@pytest.mark.parametrize("share", ["1e400", "1e999999999", "1e-999999999", "nan", "9" * 5000, "1/0"])
def test_a_share_that_nobody_means_is_no_number(share, tmp_path, capsys):
    assert run(["split", str(tmp_path), "-o", "x", "--ratios", f"train={share},test=0.5"]) == 3
    assert "is no share over 0" in capsys.readouterr().err
    assert run(["stats", str(tmp_path), "--objective", f"answer={share}"]) == 3
    assert "is no number" in capsys.readouterr().err
