"""Ctrl-C at three points, then the same command: the same dataset, and finished units are not done again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journey.road import content, ingest_lines, receipts, shardkit

WORKERS = 2


def ctrl_c(command: list[object], when: Callable[[], bool]) -> subprocess.CompletedProcess[str]:
    """Start a command and press Ctrl-C as soon as `when` holds: the signal goes to all its processes at once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shardkit", *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not when() and process.poll() is None:
        time.sleep(0.0005)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def points(out: Path) -> dict[str, Callable[[], bool]]:
    return {
        "in the first unit": lambda: (out / ".work" / "tmp").exists(),
        "after some units": lambda: receipts(out) >= 3,
        "at the commit": lambda: (out / "tables").exists(),
    }


def unit(name: str) -> str:
    return name.partition("-")[0].partition(".")[0]


@pytest.fixture(scope="module")
def undisturbed(lines: Path) -> dict[str, bytes]:
    return content(lines)


@pytest.mark.parametrize("point", ["in the first unit", "after some units", "at the commit"])
def test_the_same_command_goes_on_after_ctrl_c(sample, tmp_path, undisturbed, point):
    out = tmp_path / "lines"
    command = [*ingest_lines(sample, out), "--workers", WORKERS]

    stopped = ctrl_c(command, points(out)[point])

    if point == "at the commit" and stopped.returncode == 0:
        assert content(out) == undisturbed, "it was faster than the signal"
        return
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stdout == ""
    assert "Traceback" not in stopped.stderr
    assert f"goes on where it stopped: shardkit {shlex.join(map(str, command))}" in stopped.stderr

    finished = {unit(path.name) for path in (out / ".work" / "receipts").iterdir()}
    shards = {path: path.stat() for path in (out / "shards").rglob("*.arrow")}
    begun = {unit(path.name) for path in [*shards, *(out / ".work" / "tmp").iterdir()] if unit(path.name).isdigit()}
    assert len(finished) >= {"in the first unit": 0, "after some units": 3, "at the commit": 8}[point]
    assert len(begun - finished) <= WORKERS

    shardkit(*command)

    assert content(out) == undisturbed
    kept = {path: facts for path, facts in shards.items() if unit(path.name) in finished}
    assert len(kept) >= len(finished)
    for path, facts in kept.items():
        now = path.stat()
        assert (now.st_ino, now.st_mtime_ns) == (facts.st_ino, facts.st_mtime_ns), f"{path.name} was made again"


def test_ctrl_c_again_and_again_loses_no_finished_unit(sample, tmp_path, undisturbed):
    out = tmp_path / "lines"
    command = [*ingest_lines(sample, out), "--workers", WORKERS]
    before = 0
    for _ in range(3):
        stopped = ctrl_c(command, lambda at=before: receipts(out) > at or (out / "manifest.json").exists())
        if (out / "manifest.json").exists():
            break
        assert stopped.returncode == 130, stopped.stderr
        assert receipts(out) > before
        before = receipts(out)
    assert before > 0
    shardkit(*command)
    assert content(out) == undisturbed
