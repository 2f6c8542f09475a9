"""decontaminate as a user meets it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.store import Dataset
from tests.prepare.builders import example
from tests.prepare.decontaminate.builders import jsonl, words, write


@pytest.fixture
def road(tmp_path: Path) -> Path:
    items = [{"question": words(k, 20), "answer": words(50 + k, 2)} for k in range(4)]
    jsonl(tmp_path / "quiz.jsonl", items)
    jsonl(tmp_path / "more.test.jsonl", [{"frage": words(70, 20)}])
    write(tmp_path / "a", [example(f"x {words(1, 20)} y"), example(words(60, 30)), example(words(70, 20))])
    return tmp_path


def test_people_are_told_by_benchmark(road: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["decontaminate", f"{road}/a", "--against", f"{road}/quiz.jsonl", "-o", f"{road}/c", "--workers", "1"]
    assert run([*arguments, "--self-test"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{road}/c\t{Dataset.open(road / 'c').id}\n"
    assert err.splitlines() == [
        "self-test: planted 4, found 4",
        "read 3 examples, kept 2, excluded 1",
        "  benchmark        items   searchable contaminated       common       review     examples",
        "  quiz                 4            4            1            0            0            1",
    ]
    assert run(arguments) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "unchanged"


def test_json_has_counts_and_benchmarks(road: Path, capsys: pytest.CaptureFixture[str]):
    assert (
        run(
            ["decontaminate", f"{road}/a", "--against", f"{road}/quiz.jsonl", "--against",
             f"other={road}/more.test.jsonl", "--bench-field", "question=frage", "--dry-run", "--json"]
        )
        == 4
    )  # fmt: skip
    assert "no column 'frage' for question" in capsys.readouterr().err
    against = ["--against", f"other={road}/more.test.jsonl", "--bench-field", "question=frage"]
    assert run(["decontaminate", f"{road}/a", *against, "--dry-run", "--self-test", "--json", "--workers", "1"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert {name: found[name] for name in ("dataset", "id", "read", "kept", "excluded", "self_test")} == {
        "dataset": None, "id": None, "read": 3, "kept": 2, "excluded": 1, "self_test": {"planted": 1, "found": 1},
    }  # fmt: skip
    assert list(found["benchmarks"]) == ["other"]
    assert found["by_source"] == {"test": {"read": 3, "contaminated": 1, "kept": 2}}


def test_action_and_thresholds(road: Path, capsys: pytest.CaptureFixture[str]):
    base = ["decontaminate", f"{road}/a", "--against", f"{road}/quiz.jsonl", "--workers", "1", "--json"]

    def excluded(*options: str) -> int:
        assert run([*base, "--dry-run", *options]) == 0
        count: int = orjson.loads(capsys.readouterr().out)["excluded"]
        return count

    assert excluded() == excluded("--ngram", "13=1") == excluded("--ngram", "5=0.1", "--ngram", "20=1") == 1
    assert excluded("--ngram", "8,13") == excluded("--ngram", "7, 12=0.9") == 1
    assert excluded("--action", "report") == excluded("--ngram", "30=0.5") == 0


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--ngram", "8,8=1"], 3, "--ngram names 8 twice"),
        (["--ngram", "8,"], 3, "--ngram  is not TOKENS=SHARE"),
        (["--ngram", "a=b"], 3, "--ngram a=b is not TOKENS=SHARE"),
        (["--ngram", "2=0.5"], 3, "an n-gram of 2 tokens"),
        (["--ngram", "13=0"], 3, "no share"),
        (["--against", "{road}/quiz.jsonl"], 3, "two benchmarks have the name 'quiz'"),
        (["--against", "{road}/none.jsonl"], 4, "cannot be read"),
        (["--action", "drop"], 2, "drop"),
    ],
)
def test_what_cannot_be(road: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str):
    options = [option.format(road=road) for option in options]
    base = ["decontaminate", f"{road}/a", "--against", f"{road}/quiz.jsonl", "-o", f"{road}/c"]
    assert run([*base, *options]) == code
    assert said in capsys.readouterr().err
    assert not (road / "c").exists()


def test_the_name_of_a_benchmark_is_that_of_its_file(road: Path, capsys: pytest.CaptureFixture[str]):
    (road / "set.v2").mkdir()
    (road / "set.v2" / "more.jsonl").write_bytes((road / "quiz.jsonl").read_bytes())
    for value, name in (("more.test.jsonl", "more.test"), ("set.v2", "set.v2"), ("set.v2/", "set.v2")):
        fields = ["--bench-field", "question=frage"] if "test" in value else []
        assert run(["decontaminate", f"{road}/a", "--against", f"{road}/{value}", *fields, "--dry-run", "--json"]) == 0
        assert list(orjson.loads(capsys.readouterr().out)["benchmarks"]) == [name]


def test_no_output_is_an_error(road: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["decontaminate", f"{road}/a", "--against", f"{road}/quiz.jsonl"]) == 3
    assert "name one with -o" in capsys.readouterr().err
