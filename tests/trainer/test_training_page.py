"""docs/training.md names every field there is, and none that is not."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

from shardkit.cli.train import command
from shardkit.trainer.checkpoint import load_checkpoint
from shardkit.trainer.config import TASKS, TrainConfig
from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.stage_records import read_stage_records
from shardkit.trainer.stages import FIELDS, read_stages
from tests.trainer.conftest import STAGES
from tests.trainer.test_loop import make_config

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()


def named(table: str) -> list[str]:
    """The names in the first column of the table behind a mark."""
    lines = PAGE.split(f"<!-- {table}: held by")[1].split("\n\n")[0].splitlines()[3:]
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_every_field_of_records_and_checkpoints(tokens: Path, tmp_path: Path):
    asked = {"eval_every": 2, "objective_norms_every": 2}
    train(make_config(tokens, tmp_path / "run", steps=2, **asked))
    train(make_config(tokens, tmp_path / "run", steps=3, resume=True, **asked))
    records = read_log(tmp_path / "run/log.jsonl")
    found = {name for record in records for name in record}
    assert sorted(named("log fields")) == sorted(found)
    always = set.intersection(*(set(record) for record in records))
    assert found - always == {"eval", "grad_norm_by_objective", "resumed"}
    assert sorted(named("checkpoint fields")) == sorted(load_checkpoint(tmp_path / "run/checkpoints"))
    (record,) = read_stage_records(tmp_path / "run")
    assert sorted(named("record fields")) == sorted(record)


def test_every_field_of_a_stage(tmp_path: Path):
    assert sorted(named("stage fields")) == sorted(FIELDS)
    assert {*FIELDS} - {"name", "reset_optimizer"} <= {field.name for field in fields(TrainConfig)}


def test_the_example_of_the_page_is_a_file_of_stages(tmp_path: Path):
    (tmp_path / "stages.toml").write_text(PAGE.split("```toml\n")[1].split("```")[0])
    stages = read_stages(tmp_path / "stages.toml", {"out": tmp_path / "run"})
    assert [(stage.name, stage.first, stage.last) for stage in stages] == [
        ("alignment", 1, 2000), ("joint", 2001, 10000), ("long-context", 10001, 10500), ("instruction", 10501, 11500)
    ]  # fmt: skip
    assert stages[0].config.data == tmp_path / "tokens/captions"
    (tmp_path / "stages.toml").write_text(STAGES)
    assert read_stages(tmp_path / "stages.toml", {"out": tmp_path / "run"})[-1].last == 14


def test_options_that_the_page_names_exist():
    options = {name for parameter in command.params if isinstance(parameter, click.Option) for name in parameter.opts}
    ours = PAGE.split("## From the flags")[0] + "".join(
        line.split("|")[2] for line in PAGE.split("## From the flags")[1].splitlines() if line.startswith("| `")
    )
    named_there = set(re.findall(r"(--[a-z][a-z-]*)", ours)) - {"--nproc-per-node", "--recipe", "--set", "--run"}
    assert {name for name in named_there if not name.endswith("-")} <= options
    for task in TASKS:
        assert f"| `{task}` |" in PAGE


def test_the_lines_of_python_run(texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/tokens").symlink_to(texts)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0})  # one thread
    code = PAGE.split("```python\n")[1].split("```")[0].replace("steps=100", "steps=2")
    exec(code, {})
    first, second, last, *_ = capsys.readouterr().out.splitlines()
    records = read_log(tmp_path / "runs/first/log.jsonl")
    assert [float(first), float(second)] == [record["loss"] for record in records]
    assert last.endswith("VisionLanguage(")
