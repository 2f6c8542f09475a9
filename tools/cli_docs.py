"""Write docs/cli.md from the --help of every command: `python tools/cli_docs.py`. tests/test_docs.py holds the page to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit import errors
from shardkit.cli import COMMANDS, cli

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"

WIDTH: dict[str, Any] = {"terminal_width": 110, "max_content_width": 110}

INTRODUCTION = """\
# The command line

This page is made from `--help` by `tools/cli_docs.py`.

stdout is data: a line for each committed dataset (path, tab, id), or one JSON object with `--json`. stderr is progress and warnings.
An error is one message on stderr: where, what, and a `Next:` line with the option or command that helps. With `--json` stdout has it, too, as
`{{"error": {{"kind", "exit_code", "what", "where", "next"}}}}`; `verify` and `audit` have it beside their findings. What each key of an answer says is in
`shardkit schema --json`: `commands`, the name, `answer`. No setting lives in an environment variable.
Exit code 0 is success, `unchanged` included; take an unknown code for a failure.

```text
{errors}
```
"""


def render() -> str:
    parts = [INTRODUCTION.format(errors=(errors.__doc__ or "").strip())]
    group = click.Context(cli, info_name="shardkit", **{**cli.context_settings, **WIDTH})
    for name in COMMANDS:
        command = cli.get_command(group, name)
        assert command is not None
        parts.append(_section(f"shardkit {name}", command, group))
        for sub, below in getattr(command, "commands", {}).items():
            parts.append(
                _section(f"shardkit {name} {sub}", below, click.Context(command, info_name=name, parent=group))
            )
    return "".join(parts)


def _section(title: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=title.rsplit(maxsplit=1)[-1], parent=parent, **WIDTH)
    return f"\n## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
