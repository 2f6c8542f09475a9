"""Whatever a test here asks of `--json` is held against what `shardkit schema` says of it."""

from __future__ import annotations

import json

import click
import pytest

from shardkit.cli import common
from shardkit.cli.answers import ANSWERS


@pytest.fixture(autouse=True)
def answers_are_described(monkeypatch: pytest.MonkeyPatch):
    write = common.write_stdout

    def checked(text: str) -> None:
        write(text)
        context = click.get_current_context(silent=True)
        if context is not None and context.params.get("as_json"):
            name = context.command_path.removeprefix("shardkit ")
            if name != "schema":
                strange = json.loads(text).keys() - ANSWERS[name].keys()
                assert not strange, f"keys of {name} --json that shardkit/cli/answers.py does not describe"

    monkeypatch.setattr(common, "write_stdout", checked)
