"""Two writers at once: one wins or both find the same; nothing is half, nothing waits."""

from __future__ import annotations

import time

import pytest

from tests.journey.road import content, ingest_lines, shardkit, start

ROUNDS = 2
MANY_ROUNDS = 200


def together(command: list[object], writers: int) -> list[int]:
    """Exit codes of `writers` processes that run one command at once."""
    processes = [start(*command) for _ in range(writers)]
    codes = []
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        if process.returncode == 8:
            assert "another run is writing here" in err
            assert "\nNext: " in err
        codes.append(process.returncode)
    return codes


def rounds(sample, tmp_path, lines, number: int, writers: int) -> None:
    for index in range(number):
        out = tmp_path / f"out-{index}"
        begin = time.monotonic()
        codes = together([*ingest_lines(sample, out), "--workers", 1], writers)
        print(f"round {index}: exit codes {codes} after {time.monotonic() - begin:.1f} s")
        assert set(codes) <= {0, 8}
        assert 0 in codes
        assert content(out) == content(lines)


def test_two_writers_never_both_write(sample, tmp_path, lines):
    rounds(sample, tmp_path, lines, ROUNDS, writers=2)


@pytest.mark.full
def test_two_writers_often(sample, tmp_path, lines):
    rounds(sample, tmp_path, lines, MANY_ROUNDS, writers=2)


@pytest.mark.full
def test_eight_writers_at_once(sample, tmp_path, lines):
    rounds(sample, tmp_path, lines, 20, writers=8)


def test_a_second_writer_is_told_at_once_and_a_dead_one_leaves_no_lock(sample, tmp_path):
    out = tmp_path / "out"
    command = [*ingest_lines(sample, out), "--workers", 1]
    first = start(*command)
    while not (out / ".work" / "stage.json").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.001)
    first.send_signal(19)  # SIGSTOP: it holds the lock and does nothing
    shardkit(*command, code=8)
    first.kill()
    first.communicate()
    shardkit(*command)
