"""How a command that fails says so: words on stderr, and with --json the same as an object on stdout."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from shardkit.errors import ShardkitError


class AnsweredError(Exception):
    """Raised behind an answer of --json that holds the error already: only stderr is left to be told.

    Args:
        error: what to say there, and whose exit code it is.
    """

    def __init__(self, error: ShardkitError) -> None:
        super().__init__(str(error))
        self.error = error


def leave_stdout() -> None:
    """Send what is still to be written to stdout nowhere: its reader went away, or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_error(error: ShardkitError, *, as_json: bool) -> None:
    """Print `where: what` and `Next: hint` on stderr; with --json the error as an object on stdout."""
    if as_json:
        _answer(error.to_json())
    click.echo(f"{error}", err=True)
    if error.hint:
        click.echo(f"Next: {error.hint}", err=True)


def report_usage(error: click.ClickException, *, as_json: bool) -> None:
    """Print how the command is used and what of it was not."""
    if as_json:
        path = "shardkit" if not isinstance(error, click.UsageError) or error.ctx is None else error.ctx.command_path
        _answer(
            _object(
                "UsageError", error.exit_code, error.format_message(), next_=f"`{path} --help` shows how it is used"
            )
        )
    error.show()


def report_stop(what: str, exit_code: int, words: Sequence[str], *, as_json: bool) -> None:
    """Print what stopped the command that `words` name, and the command that goes on."""
    if words[:1] == ["train"] and "--resume" not in words:
        words = [*words, "--resume"]  # a run is gone on with only where that is said
    has_output = any(word.startswith(("-o", "--out")) for word in words) and "--dry-run" not in words
    writes = words[:1] == ["train"] or has_output
    goes_on = "this command goes on where it stopped" if writes else "to begin again"
    hint = f"{goes_on}: {shlex.join(['shardkit', *words])}"
    if as_json:
        _answer(_object("Stopped", exit_code, what, next_=hint))
    click.echo(f"{what}\nNext: {hint}", err=True)


def _object(kind: str, exit_code: int, what: str, *, next_: str) -> dict[str, Any]:
    return {"kind": kind, "exit_code": exit_code, "what": what, "where": "", "next": next_}


def _answer(error: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps({"error": error}, sort_keys=True) + "\n")
        sys.stdout.flush()
    except OSError:
        leave_stdout()  # stderr says it
