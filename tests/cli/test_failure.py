"""With --json a failure is an object on stdout, too, whatever failed; stderr says the same in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.cli import Terminated, run
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
