"""shardkit tokenize, as a user meets it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from shardkit.cli import run
from shardkit.sequence.recipes import RECIPES
from tests.example_builders import caption, make_example
from tests.prepare.tokenize.datasets import commit
from tests.tokenizer_builders import byte_level


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(byte_level()))
    examples = [make_example(0, "cat", relations=[caption(1, 0)]), make_example(0)]
    commit(tmp_path / "set", {"all": examples})
    return [
        "tokenize", f"{tmp_path}/set", "-o", f"{tmp_path}/out", "--tokenizer", f"{tmp_path}/tokenizer.json",
        "--recipe", "vlm", "--set", "image_size=28", "--workers", "1",
    ]  # fmt: skip


def test_json_has_the_counts(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--json"]) == 0
    out, err = capsys.readouterr()
    found = orjson.loads(out)
    dataset_id = orjson.loads((tmp_path / "out/manifest.json").read_bytes())["dataset_id"]
    assert found == {
        "dataset": f"{tmp_path}/out",
        "id": dataset_id,
        "unchanged": False,
        "read": 2,
        "kept": 1,
        "excluded": 1,
        "excluded_by_reason": {"no_targets": 1},
        "changes": {},
        "sequences": 1,
        "tokens": 8,
        "supervised_tokens": 4,
        "images": 1,
    }
    assert err == (
        "read 2 examples, kept 1, excluded 1\n"
        "1 sequences, 8 tokens (4 supervised), 1 images\n"
        "  excluded 1: no_targets\n"
    )


def test_stdout_is_the_dataset_and_its_id(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--quiet"]) == 0
    first = capsys.readouterr()
    dataset_id = orjson.loads((tmp_path / "out/manifest.json").read_bytes())["dataset_id"]
    assert (first.out, first.err) == (f"{tmp_path}/out\t{dataset_id}\n", "")
    assert run(command) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert again.err.endswith("unchanged\n")


def test_a_dry_run_writes_nothing(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out == "(dry run)\tnot written\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ["--set", "imagesize=3"],
            3,
            (
                "captions, seed, one_image_rows, patch, merge, resampling, normalisation, crop_percent, mirror, "
                "image_size\n"
                "Next: write --set KEY=VALUE with one of these (did you mean image_size?)\n"
            ),
        ),
        (["--set", "image_size"], 3, "--set 'image_size' is not NAME=VALUE\nNext: write --set NAME=VALUE\n"),
        (
            ["--recipe", "vml"],
            3,
            (
                f"there is no recipe 'vml'; there are {', '.join(RECIPES)}\n"
                "Next: choose one with --recipe (did you mean vlm?), or give a TOML file with name = ... in it\n"
            ),
        ),
        (
            ["--tokenizer", "nowhere"],
            3,
            (
                "nowhere: the tokenizer cannot be read (No such file or directory)\n"
                "Next: give a tokenizer.json, or the folder that holds one\n"
            ),
        ),
        (
            ["--max-tokens", "7", "--overlong", "error"],
            4,
            (
                "the example has 8 tokens, --max-tokens is 7\n"
                "Next: raise --max-tokens, or choose --overlong window, truncate or drop\n"
            ),
        ),
    ],
)
def test_errors_say_what_and_what_next(
    options: list[str], code: int, says: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *options]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(says)
    assert not (tmp_path / "out/manifest.json").exists()


def test_what_is_no_dataset_is_refused(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command[1] = "nowhere"
    assert run(command) == 4
    assert capsys.readouterr().err.startswith("nowhere: no dataset is here")


def test_show_spells_out_and_writes_nothing(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [part for part in command if part not in ("-o", f"{tmp_path}/out")]
    assert run([*without, "--show", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if "example" not in line and "sequence" not in line] == [
        "-             2  <|im_start|><|vision_start|>",
        "-             1  [image 0, 28 x 28]",
        "-             1  <|vision_end|>",
        'caption       3  "cat"',
        "caption       1  <|im_end|>",
        "left out, no_targets: it has no text, or none that is supervised",
    ]
    assert not (tmp_path / "out").exists()

    assert run([*without, "--show", "1", "--json"]) == 0
    (example,) = orjson.loads(capsys.readouterr().out)["examples"]
    (sequence,) = example["sequences"]
    assert (sequence["num_tokens"], sequence["num_supervised"]) == (8, 4)
    assert [piece["num_tokens"] for piece in sequence["pieces"]] == [2, 1, 1, 3, 1]


def test_without_an_output_it_says_what_is_missing(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([part for part in command if part != "-o" and not part.endswith("/out")]) == 3
    assert "-o, or use --dry-run or --show N" in capsys.readouterr().err


def test_what_is_shown_is_what_is_stored(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [part for part in command if part not in ("-o", f"{tmp_path}/out")]
    assert run([*without, "--show", "1", "--json"]) == 0
    shown = orjson.loads(capsys.readouterr().out)["examples"][0]
    assert run([*command, "--quiet"]) == 0
    capsys.readouterr()
    assert run(["inspect", f"{tmp_path}/out", shown["sequences"][0]["sequence_id"][:12], "--json"]) == 0
    found = orjson.loads(capsys.readouterr().out)
    (stored,) = found["sequences"]
    assert {name: stored[name] for name in shown["sequences"][0]} == shown["sequences"][0]
    (example,) = found["examples"]
    assert [segment["text"] for segment in example["segments"]] == [None, "cat"]
    assert (example["images"][0]["height"], example["images"][0]["width"]) == (32, 48)


def test_inspect_shows_the_first_example_and_names_what_is_not_there(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", f"{tmp_path}/set"]) == 0
    out = capsys.readouterr().out
    assert "[image 0: 32 x 48 image/png" in out
    assert '"cat"' in out
    assert run(["inspect", f"{tmp_path}/set", "--split", "test"]) == 3
    assert "no split 'test'" in capsys.readouterr().err
    assert run(["inspect", f"{tmp_path}/set", "00000000"]) == 3
    assert run(["inspect", f"{tmp_path}/nothing"]) == 4


def test_texts_and_names_of_files_give_no_commands_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wicked = "a\x1b[31m\x9b2J\u202eb"
    file = tmp_path / f"{wicked}.jsonl"
    file.write_text(orjson.dumps({"text": wicked, "more": wicked}).decode() + "\n", encoding="utf-8")
    assert run(["ingest", "text", str(file), "-o", f"{tmp_path}/in", "--quiet"]) == 0
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_bytes(orjson.dumps(byte_level()))
    capsys.readouterr()
    assert run(["inspect", f"{tmp_path}/in"]) == 0
    assert (
        run(["tokenize", f"{tmp_path}/in", "--tokenizer", str(tokenizer), "--recipe", "pretrain", "--show", "1"]) == 0
    )
    out = capsys.readouterr().out
    assert out.count("\\u001b[31m\\u009b2J\\u202eb") >= 3
    assert not set(out) & set("\x1b\x9b\u202e")
