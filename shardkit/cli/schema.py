"""`shardkit schema`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from shardkit.cli.answers import ANSWERS
from shardkit.cli.common import json_option, options, print_result, silent_option
from shardkit.prepare.report.schema import schema


@click.command("schema")
@options(json_option, silent_option)
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """Print reasons of exclusions, exit codes, tables, settings of recipes, options and answers of commands, as data.

    \b
    shardkit schema --json
    """
    found = {**schema(), "commands": _commands(context)}
    print_result(found, as_json=as_json, text=_text(found))


def _commands(context: click.Context) -> dict[str, dict[str, Any]]:
    """Command -> option -> what it takes, for every command of the program; those of a group by both names."""
    group = context.parent
    if group is None or not isinstance(group.command, click.Group):
        return {}
    return {
        name: {
            "help": command_.get_short_help_str(200),
            "options": _options(command_),
            "answer": ANSWERS.get(name),
        }
        for name, command_ in _all(group.command, group)
    }


def _all(group: click.Group, context: click.Context, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command_ = group.get_command(context, name)
        if isinstance(command_, click.Group):
            yield from _all(command_, context, f"{before}{name} ")
        elif command_ is not None:
            yield f"{before}{name}", command_


def _options(command_: click.Command) -> dict[str, dict[str, Any]]:
    return {
        max(parameter.opts, key=len): {
            "names": [*parameter.opts, *parameter.secondary_opts],
            "argument": isinstance(parameter, click.Argument),
            "required": parameter.required,
            "repeatable": parameter.multiple if isinstance(parameter, click.Option) else parameter.nargs == -1,
            "flag": isinstance(parameter, click.Option) and parameter.is_flag,
            "choices": list(parameter.type.choices) if isinstance(parameter.type, click.Choice) else None,
            "help": parameter.help if isinstance(parameter, click.Option) else None,
        }
        for parameter in command_.params
    }


def _text(found: dict[str, Any]) -> str:
    lines = ["Exit codes", *(f"  {code:>4}  {meaning}" for code, meaning in found["exit_codes"].items())]
    for stage, reasons in found["reasons"].items():
        lines += [f"Reasons of {stage}", *(f"  {code:24} {meaning}" for code, meaning in reasons.items())]
    lines += ["Commands", *(f"  {name:10} {' '.join(item['options'])}" for name, item in found["commands"].items())]
    return "\n".join(lines)
