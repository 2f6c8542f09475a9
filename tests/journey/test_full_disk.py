"""No space, at every place where the output is written: exit code 8, one message, and the same command goes on."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from shardkit.cli import run
from tests.journey.road import content, ingest_lines, shardkit

FILES = "shardkit.store.files.os"
FEW = 6
"""Places of failure in `make test`, spread over the run; `make test-full` takes every one."""


class FailingOs:
    """The os module whose `operation` fails once or from then on, at its `nth` call."""

    def __init__(self, operation: str, nth: int, error: int, *, for_ever: bool) -> None:
        self._operation, self._nth, self._error, self._for_ever = operation, nth, error, for_ever
        self.calls = 0

    def __getattr__(self, name: str) -> object:
        if name != self._operation:
            return getattr(os, name)
        return self._call

    def _call(self, *arguments: object, **named: object) -> object:
        self.calls += 1
        if self.calls == self._nth or (self._for_ever and self.calls > self._nth):
            raise OSError(self._error, os.strerror(self._error))
        return getattr(os, self._operation)(*arguments, **named)


def count(monkeypatch: pytest.MonkeyPatch, command: list[str], operation: str) -> int:
    """How often a whole run calls `operation` on its output."""
    counting = FailingOs(operation, 0, 0, for_ever=False)
    with monkeypatch.context() as patch:
        patch.setattr(FILES, counting)
        assert run(command) == 0
    return counting.calls


def fail_at_each(
    monkeypatch, capsys, sample: Path, lines: Path, tmp_path: Path, operation: str, error: int, *, few: int | None
) -> None:
    def command(out: Path) -> list[str]:
        return [str(part) for part in [*ingest_lines(sample, out), "--workers", 1]]

    expected = content(lines)
    total = count(monkeypatch, command(tmp_path / "whole"), operation)
    assert total > FEW
    places = range(1, total + 1) if few is None else sorted({1, total, *range(1, total, max(1, total // few))})
    for nth in places:
        out = tmp_path / f"out-{nth}"
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(FILES, FailingOs(operation, nth, error, for_ever=nth % 2 == 0))
            assert run(command(out)) == 8, f"{operation} number {nth} of {total}"
        said = capsys.readouterr()
        assert errno.errorcode[error] in said.err
        assert "\nNext: " in said.err
        assert said.out == ""
        assert run(command(out)) == 0, f"going on after {operation} number {nth}"
        assert content(out) == expected


@pytest.mark.parametrize(
    ("operation", "error"),
    [("write", errno.ENOSPC), ("fsync", errno.EIO), ("link", errno.ENOSPC), ("open", errno.EMFILE)],
    ids=["write-ENOSPC", "fsync-EIO", "link-ENOSPC", "open-EMFILE"],
)
def test_a_failing_output_is_told_and_gone_on_with(monkeypatch, capsys, sample, lines, tmp_path, operation, error):
    fail_at_each(monkeypatch, capsys, sample, lines, tmp_path, operation, error, few=FEW)


@pytest.mark.full
@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("write", errno.EDQUOT),
        ("write", errno.ENOSPC),
        ("fsync", errno.EIO),
        ("link", errno.ENOSPC),
        ("unlink", errno.EIO),
        ("open", errno.ENOSPC),
    ],
)
def test_a_failing_output_at_every_call(monkeypatch, capsys, sample, lines, tmp_path, operation, error):
    fail_at_each(monkeypatch, capsys, sample, lines, tmp_path, operation, error, few=None)


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 300 kB. Mounting needs rights; the injected errors above run everywhere."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("unavailable: mounting a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_told_and_gone_on_with(sample, lines, small_disk):
    command = ingest_lines(sample, small_disk / "lines")
    said = shardkit(*command, code=8).stderr
    assert "ENOSPC" in said
    assert "\nNext: " in said
    assert not (small_disk / "lines" / "manifest.json").exists()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    shardkit(*command)
    assert content(small_disk / "lines") == content(lines)
