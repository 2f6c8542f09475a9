"""`shardkit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from shardkit.prepare.audit.run import AuditConfig, AuditResult, run


@click.command("audit")
@dataset_argument
@options(workers_option, base_option, json_option, quiet_option)
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Prove from the shards that nothing stands on two sides of a split. Exit code 6 is a leak.

    Images, their pixels, texts, declared groups and parents are computed again from the bytes of the shards; tables are
    not believed. Exit code 5: bytes are not those that a digest names. A dataset that was never split has nothing to
    audit, and exit code 0.

    \b
    shardkit audit work/split
    """
    result = run(AuditConfig(dataset=dataset, **given), progress_bar("audit", quiet=quiet))
    error = result.error
    if as_json or error is None:
        print_result(result.to_json(), as_json=as_json, text=_verdict(result))
    if error is not None:
        for item in result.evidence:
            sides = "; ".join(
                f"{split}: {side['examples']} examples, {', '.join(side['rows'])}"
                for split, side in item["sides"].items()
            )
            say(f"{item['kind']} {item['value']}: {sides}", quiet=quiet)
        raise error


def _verdict(result: AuditResult) -> str:
    if len(result.splits) < 2:
        return f"{result.path}\tnothing to audit: the dataset was never split"
    permitted = sum(result.permitted.values())
    note = f", {permitted} boilerplate values on two sides are permitted" if permitted else ""
    return f"{result.path}\tno leak between {', '.join(result.splits)} in {result.examples} examples{note}"
