"""`shardkit concat`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    base_option,
    datasets_argument,
    dry_run_option,
    json_option,
    options,
    output_option,
    overwrite_option,
    print_dataset,
    quiet_option,
)
from shardkit.prepare.concat.config import ConcatConfig
from shardkit.prepare.concat.run import run
from shardkit.prepare.result import StageResult

_options = options(overwrite_option, dry_run_option, base_option, json_option, quiet_option)


@click.command("concat")
@datasets_argument
@output_option
@_options
def command(*, datasets: tuple[Path, ...], as_json: bool, quiet: bool, **given: Any) -> None:
    """Join datasets into one that refers to the shards of all; nothing is copied or packed anew.

    Splits are kept by their names: all inputs are split, or none is. Sequences are joined where tokenizer, recipe and
    settings are the same. An example that stands in two inputs stands in the output twice: run `shardkit dedup` on the
    inputs instead where that matters, and `shardkit audit` on a concat of splits.

    \b
    shardkit concat work/2024 work/2025 -o work/both
    shardkit concat work/tokens work/more-tokens -o work/all-tokens
    """
    result = run(ConcatConfig(inputs=datasets, **given))
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _table(result: StageResult) -> str:
    report = result.report
    lines = [f"{result.counts['kept']} examples in {report['shards']} shards of the inputs"]
    lines += [f"  {split}: {totals.get('examples', 0)}" for split, totals in report["by_split"].items()]
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
