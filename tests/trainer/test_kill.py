"""kill -9 at spread steps of a run, each followed by --resume: the same bits as without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shardkit.trainer.loop import train
from shardkit.trainer.metrics import read_log
from tests.trainer.test_loop import make_config

STEPS = 40
EVERY = 3
"""Steps between checkpoints, so that most kills lose some steps"""


def command(tokens: Path, out: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "shardkit", "train", "--task", "vlm-align", "--data", str(tokens), "--out", str(out)),
        *("--steps", str(STEPS), "--max-tokens", "64", "--warmup", "2", "--threads", "1", "--resume", "--quiet"),
        *("--checkpoint-every", str(EVERY)),
    ]


def last_step(out: Path) -> int:
    return max((record["step"] for record in read_log(out / "log.jsonl")), default=0)


def kill_at(step: int, arguments: list[str], out: Path) -> int:
    """Start the run, kill it once its log has `step`, and return the last step that it logged."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    try:
        while last_step(out) < step:
            assert process.poll() is None, "the run ended before it was killed"
            time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    return last_step(out)


def kill_and_resume(tokens: Path, tmp_path: Path, kills: list[int]) -> None:
    whole = train(make_config(tokens, tmp_path / "whole", steps=STEPS, checkpoint_every=EVERY))
    arguments = command(tokens, tmp_path / "killed")
    reached = [kill_at(step, arguments, tmp_path / "killed") for step in kills]
    print("killed at steps", reached)
    assert all(step < STEPS for step in reached)
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "step": STEPS,
        "loss": whole.loss,
        "weights_digest": whole.weights_digest,
    }
    one, other = (read_log(tmp_path / name / "log.jsonl") for name in ("whole", "killed"))
    for name in ("step", "loss", "batch_id"):
        assert [record[name] for record in one] == [record[name] for record in other]


def test_a_run_killed_four_times_ends_with_the_same_bits(tokens: Path, tmp_path: Path):
    kill_and_resume(tokens, tmp_path, [1, 8, 18, 29])


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_run_killed_twenty_times_ends_with_the_same_bits(tokens: Path, tmp_path: Path):
    # A resumed run repeats up to EVERY steps, so each kill is at least that much later than the last one.
    kill_and_resume(tokens, tmp_path, [1 + round(place * (STEPS - 6) / 19) for place in range(20)])
