"""Items in, results out in the same order, however many processes; a dead worker is an error with a name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from shardkit.engine import map_ordered
from shardkit.errors import ShardkitError, SourceError


def slow_square(number: int) -> tuple[int, int]:
    time.sleep(0.02 * (number % 3))
    return number * number, os.getpid()


def fail_at_three(number: int) -> int:
    if number == 3:
        raise SourceError("three is bad", where="rows.jsonl:3", hint="leave it out")
    return number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(workers: int):
    results = list(map_ordered(slow_square, range(12), workers=workers))
    assert [square for square, _ in results] == [n * n for n in range(12)]
    assert (len({pid for _, pid in results} - {os.getpid()}) > 0) == (workers > 1)


def test_a_single_item_needs_no_other_process():
    assert list(map_ordered(slow_square, [5], workers=4)) == [(25, os.getpid())]
    assert list(map_ordered(slow_square, [], workers=4)) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_items_are_read_only_a_little_ahead(workers: int):
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    results = map_ordered(slow_square, items(), workers=workers, in_flight=3)
    next(results)
    assert len(taken) <= 5
    results.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_comes_through_with_all_its_parts(workers: int):
    with pytest.raises(SourceError) as caught:
        list(map_ordered(fail_at_three, range(6), workers=workers))
    assert (caught.value.what, caught.value.where, caught.value.hint) == (
        "three is bad",
        "rows.jsonl:3",
        "leave it out",
    )


def test_a_killed_worker_is_an_error_and_no_hang():
    with pytest.raises(ShardkitError, match="a worker process died"):
        list(map_ordered(die, range(4), workers=2))


def test_workers_leave_with_a_killed_parent(tmp_path):
    code = f"""
import os, sys, time
sys.path.insert(0, {os.getcwd()!r})
from tests.engine.test_local import note_and_wait
from shardkit.engine import map_ordered
if __name__ == "__main__":
    list(map_ordered(note_and_wait, [{str(tmp_path)!r}] * 4, workers=2))
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    parent = subprocess.Popen([sys.executable, str(script)])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(file.stem) for file in tmp_path.glob("*.pid")]
    parent.kill()
    parent.wait()
    assert len(workers) == 2
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in workers)


def note_and_wait(folder: str) -> None:
    open(os.path.join(folder, f"{os.getpid()}.pid"), "w").close()
    time.sleep(120)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before the open, or between the open and the read
        return False
