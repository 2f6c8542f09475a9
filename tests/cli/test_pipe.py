"""A reader of stdout that goes away early is no failure."""

from __future__ import annotations

import subprocess
import sys


def test_a_reader_that_goes_away_ends_the_command_well() -> None:
    command = [sys.executable, "-m", "shardkit", "schema"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # before the command has anything to say
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), said) == (0, b"")
