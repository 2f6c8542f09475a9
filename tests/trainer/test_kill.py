"""kill -9 at spread steps of a run, each followed by --resume: the same bits as without."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from shardkit import cli
from shardkit.trainer.loop import Result, train
from shardkit.trainer.metrics import read_log
from shardkit.trainer.stage_records import read_stage_records
from shardkit.trainer.stages import read_stages
from tests.trainer.conftest import STAGES
from tests.trainer.processes import command, start
from tests.trainer.test_loop import make_config

EVERY = 3
"""Steps between checkpoints, so that most kills lose some steps"""


def last_step(out: Path) -> int:
    return max((record["step"] for record in read_log(out / "log.jsonl")), default=0)


def kill_at(step: int, arguments: list[str], out: Path, *, after: float = 0.0) -> int:
    """Start the run, kill it `after` seconds after its log has `step`, and return the last step that it logged."""
    process = start(command, arguments, out.parent / "stdout")
    try:
        while last_step(out) < step:
            assert process.is_alive(), "the run ended before it was killed"
            time.sleep(0.002)
        time.sleep(after)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return last_step(out)


def finish(arguments: list[str], whole: Result, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Resume once more, to the end, and compare with the run that was never killed."""
    assert cli.run(arguments) == 0
    assert f'"step":{whole.step},"weights_digest":"{whole.weights_digest}"' in capsys.readouterr().out
    one, other = (read_log(folder / "log.jsonl") for folder in (whole.config.out, out))
    for name in ("step", "stage", "loss", "batch_id", "shares"):
        assert [record[name] for record in one] == [record[name] for record in other]
    assert read_stage_records(whole.config.out) == read_stage_records(out)


def kill_and_resume(
    tokens: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, steps: int, kills: list[int]
) -> None:
    out = tmp_path / "killed"
    whole = train(make_config(tokens, tmp_path / "whole", steps=steps, checkpoint_every=EVERY))
    arguments = [
        *("train", "--task", "vlm-align", "--data", str(tokens), "--out", str(out), "--steps", str(steps), "--resume"),
        *("--max-tokens", "64", "--warmup", "2", "--threads", "1", "--quiet", "--checkpoint-every", str(EVERY)),
    ]
    reached = [kill_at(step, arguments, out) for step in kills]
    assert all(step < steps for step in reached), reached
    finish(arguments, whole, out, capsys)


def test_a_run_killed_four_times_ends_with_the_same_bits(
    tokens: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # A resumed run repeats up to EVERY steps, so each kill is at least that much later than the last one.
    kill_and_resume(tokens, tmp_path, capsys, steps=24, kills=[1, 5, 10, 15])


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_run_killed_twenty_times_ends_with_the_same_bits(
    tokens: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kill_and_resume(tokens, tmp_path, capsys, steps=100, kills=[1 + 4 * place for place in range(20)])


def kill_staged(
    road: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    longer: int,
    kills: list[tuple[int, float]],
) -> None:
    """Kill a run of several stages at these steps, each so many seconds after its log has the step."""
    out, file = tmp_path / "killed", road / f"longer-{longer}.toml"
    file.write_text(re.sub(r"steps = (\d+)", lambda found: f"steps = {longer * int(found[1])}", STAGES))
    options = {"max_tokens": 128, "warmup": 2, "threads": 1, "checkpoint_every": 2}
    whole = train(read_stages(file, {**options, "out": tmp_path / "whole"}))
    arguments = [
        *("train", "--stages", str(file), "--out", str(out), "--resume", "--quiet"),
        *("--max-tokens", "128", "--warmup", "2", "--threads", "1", "--checkpoint-every", "2"),
    ]
    reached = [kill_at(step, arguments, out, after=after) for step, after in kills]
    assert all(step < whole.step for step in reached), reached
    finish(arguments, whole, out, capsys)


def test_a_run_killed_at_the_borders_of_its_stages_ends_with_the_same_bits(
    road: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    kill_staged(road, tmp_path, capsys, longer=2, kills=[(3, 0.0), (6, 0.0), (10, 0.02), (24, 0.05)])


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_staged_run_killed_twenty_times_ends_with_the_same_bits(
    road: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # 84 steps, borders after 18, 30, 54 and 72; a resumed run repeats up to two.
    steps = [1, 5, 9, 13, 18, 21, 25, 30, 33, 37, 41, 45, 49, 54, 57, 61, 65, 72, 75, 79]
    kill_staged(
        road, tmp_path, capsys, longer=6, kills=[(step, number % 4 * 0.015) for number, step in enumerate(steps)]
    )


def test_a_run_that_breaks_off_at_any_file_ends_with_the_same_bits(
    road: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Before each file of the run gets its name, in turn: settings, log, records of stages, checkpoints, references."""
    file = road / "short.toml"
    parts = re.sub(r"steps = \d+", "steps = 1", STAGES).split("[[stage]]")
    file.write_text("[[stage]]".join(["", parts[1], parts[3], parts[5]]))
    named: list[str] = []
    stop_at = -1

    def replace(source, target, real=os.replace):
        named.append(Path(target).name)
        if len(named) == stop_at:
            raise KeyboardInterrupt
        real(source, target)

    def run(out: str) -> str:
        named.clear()
        options = {"out": tmp_path / out, "max_tokens": 128, "threads": 1, "checkpoint_every": 1, "resume": True}
        return train(read_stages(file, options)).weights_digest

    monkeypatch.setattr("shardkit.trainer.checkpoint.os.replace", replace)
    whole = run("whole")
    files = [*named]
    assert {"run.json", "stages.jsonl", "log.jsonl", "latest"} <= set(files)
    assert any(name.startswith("step-00000002-") for name in files)
    assert files.count("stages.jsonl") == 3
    for number in range(1, len(files) + 1):
        stop_at = number
        with pytest.raises(KeyboardInterrupt):
            run(str(number))
        stop_at = -1
        assert run(str(number)) == whole, files[number - 1]
        assert read_stage_records(tmp_path / str(number)) == read_stage_records(tmp_path / "whole")
