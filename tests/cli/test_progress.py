"""The bar: rate, time left and what was excluded, on a terminal only, and gone before anything else is said."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import redirect_stderr

import click
import pytest

from shardkit.cli.common import progress_bar
from shardkit.engine import silent
from shardkit.prepare.ingest import IngestConfig, run


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(screen: io.StringIO) -> list[str]:
    return screen.getvalue().split("\r")


def test_off_a_terminal_and_with_quiet_nothing_is_drawn():
    with redirect_stderr(Terminal()):
        assert progress_bar("ingest", quiet=True) is silent
    with redirect_stderr(io.StringIO()):
        assert progress_bar("ingest", quiet=False) is silent


def test_the_bar_has_rate_time_left_and_the_note():
    with redirect_stderr(Terminal()) as screen:
        say = progress_bar("ingest caption", quiet=False, unit="B")
    say(1_000_000, 8_000_000, "10 read, 0 excluded")
    for done in range(2, 8):
        time.sleep(0.11)  # the bar draws at most every tenth of a second, by a clock that it does not let us set
        say(done * 1_000_000, 8_000_000, f"{done}0 read, {done} excluded")
    form = r"ingest caption:  88%.* 7\.00M/8\.00M \[\d+:\d+<\d+:\d+, .*B/s, 70 read, 7 excluded\]"
    assert re.search(form, drawn(screen)[-1])
    say(8_000_000, 8_000_000)
    assert drawn(screen)[-2].strip() == "", "the bar is wiped when it is full"


def test_the_bar_is_wiped_when_the_command_fails():
    @click.command()
    def failing():
        progress_bar("ingest", quiet=False)(1, 5)
        raise KeyboardInterrupt

    with redirect_stderr(Terminal()) as screen, pytest.raises(click.Abort):
        failing.main([], standalone_mode=False)
    assert drawn(screen)[-2].strip() == ""


def test_ingest_moves_on_within_a_unit_and_ends_at_the_total(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"text": f"text {n}" if n % 2 else ""}) + "\n" for n in range(1000)))
    said = []
    run(
        IngestConfig(format="text", paths=(path,), output=tmp_path / "out", max_bad=1),
        lambda done, total, note="": said.append((done, total, note)),
    )
    size = path.stat().st_size
    assert [total for _, total, _ in said] == [size] * len(said)
    assert len({done for done, _, _ in said}) >= 4
    assert said == sorted(said, key=lambda entry: entry[0])
    assert said[-1][0] == pytest.approx(size, rel=0.01)
    assert said[-1][2] == "1000 read, 500 excluded"
