"""`shardkit verify`."""

from __future__ import annotations

from typing import Any

import click

from shardkit.cli.common import (
    base_option,
    dataset_argument,
    json_option,
    options,
    print_verdict,
    progress_bar,
    quiet_option,
    remote_options,
    say,
    workers_option,
)
from shardkit.prepare.audit.verify import VerifyConfig, run


@click.command("verify")
@dataset_argument
@click.option("--deep", is_flag=True, help="Decode every image and compute every id again.")
@options(workers_option, base_option, remote_options, json_option, quiet_option)
def command(*, as_json: bool, quiet: bool, **given: Any) -> None:
    """Compare every file of a dataset with its manifest. Exit code 5 names what differs.

    Shards of other datasets that it refers to are compared too. Files that are not of the dataset are listed; no reader
    looks at them.

    \b
    shardkit verify work/clean
    shardkit verify work/clean --deep
    """
    config = VerifyConfig(**given)
    result = run(config, progress_bar("verify", quiet=quiet))
    for name in result.stray:
        say(f"not of the dataset: {name}", quiet=quiet)
    text = f"{result.where}\t{result.dataset_id}\t{result.files} files and {result.examples} examples are whole"
    print_verdict(result.to_json(), result.error, as_json=as_json, text=text)
