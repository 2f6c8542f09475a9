"""kill -9, then the same command: the dataset is byte-identical to that of an undisturbed run.

Each test prints which step its kill hit (`pytest -rP` shows it).
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.journey.road import Road, content, ingest_captions, ingest_lines, receipts, shardkit, start, step

KILLS = 4
MANY_KILLS = 24
NUM_UNITS = 8
"""At least so many units has the ingest of the lines; one receipt each."""


def begun(out: Path, process: subprocess.Popen[str]) -> None:
    """Wait until the run has begun to write: before that there is only the start of Python."""
    while not (out / ".work").exists() and not (out / "manifest.json").exists() and process.poll() is None:
        time.sleep(0.0005)


def writing_seconds(out: Path, command: list[object]) -> float:
    """Run a command undisturbed; returns how long it wrote."""
    process = start(*command)
    begun(out, process)
    begin = time.monotonic()
    _, err = process.communicate()
    assert process.returncode == 0, err
    return time.monotonic() - begin


def kill_after(seconds: float, out: Path, command: list[object]) -> str:
    """Start a command and kill it some seconds after it began to write; returns the step it had reached."""
    process = start(*command)
    begun(out, process)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    return step(out)


def kill_after_receipt(number: int, out: Path, command: list[object]) -> str:
    """Start a command and kill it as soon as it has `number` receipts."""
    process = start(*command)
    while receipts(out) < number and process.poll() is None and not (out / "manifest.json").exists():
        time.sleep(0.0005)
    process.kill()
    process.communicate()
    return step(out)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> tuple[dict[str, bytes], float]:
    """Files of an undisturbed ingest, and the seconds in which it wrote them."""
    out = tmp_path_factory.mktemp("undisturbed") / "lines"
    seconds = writing_seconds(out, [*ingest_lines(sample, out), "--workers", 2])
    return content(out), seconds


def spread(sample: Path, out: Path, undisturbed: tuple[dict[str, bytes], float], number: int, of: int) -> None:
    files, seconds = undisturbed
    command = [*ingest_lines(sample, out), "--workers", 2]
    moment = seconds * number / of
    print(f"kill {number} of {of} after {moment:.2f} of {seconds:.2f} s: {kill_after(moment, out, command)}")
    shardkit(*command)
    assert content(out) == files


@pytest.mark.parametrize("number", range(1, KILLS + 1))
def test_ingest_killed_at_a_moment_ends_the_same(sample, tmp_path, undisturbed, number):
    spread(sample, tmp_path / "lines", undisturbed, number, KILLS + 1)


@pytest.mark.full
@pytest.mark.parametrize("number", range(1, MANY_KILLS + 1))
def test_ingest_killed_at_many_moments_ends_the_same(sample, tmp_path, undisturbed, number):
    spread(sample, tmp_path / "lines", undisturbed, number, MANY_KILLS + 1)


def test_ingest_killed_after_each_receipt_goes_on_and_ends_the_same(sample, tmp_path, undisturbed):
    files, _ = undisturbed
    out = tmp_path / "lines"
    command = [*ingest_lines(sample, out), "--workers", 1]
    reached, number = [], 0
    while True:
        number += 1
        print(f"kill after receipt {number}: {kill_after_receipt(number, out, command)}")
        if (out / "manifest.json").exists() or receipts(out) < number:
            break
        reached.append(receipts(out))
    assert len(reached) >= NUM_UNITS
    assert reached == sorted(reached), "a receipt was lost"
    shardkit(*command)
    assert content(out) == files


@pytest.mark.full
@pytest.mark.parametrize("shards", ["arrow", "tar"])
def test_captions_killed_again_and_again_end_the_same(sample, tmp_path, shards):
    whole, out = tmp_path / "whole", tmp_path / "killed"
    seconds = writing_seconds(whole, [*ingest_captions(sample, whole), "--shards", shards])
    command = [*ingest_captions(sample, out), "--shards", shards]
    for number in range(1, 21):
        print(f"kill {number}: {kill_after(seconds * number / 21, out, command)}")
    shardkit(*command)
    assert content(out) == content(whole)


@pytest.mark.parametrize("name", ["clean", "split", "tokens"])
def test_a_later_stage_killed_once_ends_the_same(road: Road, sample, tmp_path, name):
    kill_and_compare(road, sample, tmp_path, name, kills=1)


@pytest.mark.full
@pytest.mark.parametrize("name", ["pages", "clean", "split", "tokens"])
def test_a_later_stage_killed_often_ends_the_same(road: Road, sample, tmp_path, name):
    kill_and_compare(road, sample, tmp_path, name, kills=20)


def kill_and_compare(road: Road, sample: Path, tmp_path: Path, name: str, *, kills: int) -> None:
    command = road.commands(sample)[name]
    place = command.index(road.stages[name])
    whole = tmp_path / "whole"
    seconds = writing_seconds(whole, [*command[:place], whole, *command[place + 1 :]])
    for number in range(1, kills + 1):
        out = tmp_path / f"killed-{number}"
        again = [*command[:place], out, *command[place + 1 :]]
        moment = seconds * number / (kills + 1)
        print(f"kill {number} after {moment:.2f} of {seconds:.2f} s: {kill_after(moment, out, again)}")
        shardkit(*again)
        assert content(out) == content(whole) == content(road.stages[name])
