"""shardkit tokenize for dialogues, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardkit.cli import run

TOKENIZER = Path(__file__).resolve().parents[1] / "data" / "tokenizer"
ROWS = [
    {"conversations": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "gt": ["a"]},
    {"conversations": [{"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]},
    {"prompt": "q", "chosen": "a", "rejected": "b"},
]


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert run(["ingest", "chat", f"{tmp_path}/rows.jsonl", "-o", f"{tmp_path}/set", "--quiet", "--workers", "1"]) == 0
    capsys.readouterr()
    return ["tokenize", f"{tmp_path}/set", "-o", f"{tmp_path}/out", "--tokenizer", f"{TOKENIZER}", "--workers", "1", "--recipe"]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "kept", "reasons"),
    [
        ("sft", 2, {"no_dialogue": 1}),
        ("dpo", 1, {"no_pair": 2}),
        ("rlaif", 2, {"no_dialogue": 1}),
        ("agent", 1, {"no_gt": 1, "no_dialogue": 1}),
    ],
)
def test_each_recipe_takes_its_rows_and_says_why_not_others(
    command: list[str], capsys: pytest.CaptureFixture[str], recipe: str, kept: int, reasons: dict[str, int]
) -> None:
    assert run([*command, recipe, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kept"], found["sequences"], found["excluded_by_reason"]) == (kept, kept, reasons)


def test_settings_and_templates_come_from_the_command_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages[-1].content }}<|im_end|>", encoding="utf-8")
    (tmp_path / "p.txt").write_text("Be kind.\n", encoding="utf-8")
    options = ["--chat-template", f"{tmp_path}/t.jinja", "--set", f"system_prompts={tmp_path}/p.txt"]
    without = [part for part in command if part not in ("-o", f"{tmp_path}/out")]
    assert run([*without, "rlaif", *options, "--set", "system_prompt_ratio=1", "--show", "1", "--json"]) == 0
    (example,) = json.loads(capsys.readouterr().out)["examples"]
    (sequence,) = example["sequences"]
    assert json.loads(sequence["prompt"])["text"] == "q<|im_end|>"
    assert json.loads(sequence["prompt"])["messages"][0] == {"role": "system", "content": "Be kind."}


@pytest.mark.parametrize(
    ("recipe", "source", "says"),
    [
        ("rlaif", "{{ ''.__class__ }}", "the chat template is refused: it asks a str for '__class__'"),
        ("rlaif", "{% if %}", "the chat template is refused: line 1: Expected an expression"),
        ("sft", "{{ messages[0].content }}", "the chat template does not render dialogues as the layout chatml"),
        ("pretrain", "x", "recipe pretrain has no chat template"),
    ],
)
def test_a_template_that_does_not_serve_is_an_error_of_the_settings(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], recipe: str, source: str, says: str
) -> None:
    (tmp_path / "t.jinja").write_text(source, encoding="utf-8")
    assert run([*command, recipe, "--quiet", "--chat-template", f"{tmp_path}/t.jinja"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "\nNext: " in err
    assert not (tmp_path / "out" / "manifest.json").exists()
