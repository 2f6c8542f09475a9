"""`shardkit verify`."""

from __future__ import annotations

from pathlib import Path

import click

from shardkit.cli.common import (
    base_option,
    dataset_argument,
    json_option,
    options,
    print_result,
    progress_bar,
    quiet_option,
    say,
    workers_option,
)
from shardkit.prepare.audit.verify import VerifyConfig, run


@click.command("verify")
@dataset_argument
@click.option("--deep", is_flag=True, help="Decode every image and compute every id again.")
@options(workers_option, base_option, json_option, quiet_option)
def command(*, dataset: Path, deep: bool, workers: int, bases: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Compare every file of a dataset with its manifest. Exit code 5 names what differs.

    Shards of other datasets that it refers to are compared too. Files that are not of the dataset are listed; no reader
    looks at them.

    \b
    shardkit verify work/clean
    shardkit verify work/clean --deep
    """
    config = VerifyConfig(dataset=dataset, deep=deep, bases=bases, workers=workers)
    result = run(config, progress_bar("verify", quiet=quiet))
    for name in result.stray:
        say(f"not of the dataset: {name}", quiet=quiet)
    error = result.error
    if as_json or error is None:
        text = f"{result.path}\t{result.dataset_id}\t{result.files} files and {result.examples} examples are whole"
        print_result(result.to_json(), as_json=as_json, text=text)
    if error is not None:
        raise error
