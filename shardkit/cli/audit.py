"""`shardkit audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    base_option,
    dataset_argument,
    embedding_column_option,
    embedding_field_option,
    json_option,
    options,
    parse_names,
    print_verdict,
    progress_bar,
    quiet_option,
    say,
    workers_option,
)
from shardkit.prepare.audit.config import LISTED, AuditConfig, AuditResult
from shardkit.prepare.audit.run import run
from shardkit.prepare.dedup.levels import LEVELS


@click.command("audit")
@dataset_argument
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="LEVEL,...",
    help=f"What is compared, of {', '.join(LEVELS)}. Repeatable. Equal ones are always looked for: naming levels leaves out "
    "the near ones that are not named.  [default: what the split recorded]",
)
@click.option(
    "--group-by",
    metavar="KEY",
    help="A key that may not stand on two sides either: a metadata field, @source, @domain, @path, @path:REGEX.",
)
@click.option(
    "--embeddings",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Vectors of examples or images, as `shardkit dedup` takes them: neighbours are looked for. Repeatable.",
)
@embedding_column_option
@embedding_field_option
@click.option(
    "--show",
    "listed",
    type=Whole(min=1),
    default=LISTED,
    show_default=True,
    metavar="N",
    help="Leaks of each kind that are named with their rows; all are counted.",
)
@options(workers_option, base_option, json_option, quiet_option)
def command(*, dataset: Path, levels: tuple[str, ...], as_json: bool, quiet: bool, **given: Any) -> None:
    """Prove from the shards that nothing stands on two sides of a split. Exit code 6 is a leak.

    Images, their pixels and looks, texts, declared groups and parents are computed again from the bytes of the shards;
    tables are not believed. What is near is decided by the matchers and thresholds that the split recorded. Exit code 5:
    bytes are not those that a digest names. A dataset that was never split has nothing to audit, and exit code 0.

    \b
    shardkit audit work/split
    shardkit audit work/split --level exact,pixel
    """
    config = AuditConfig(dataset=dataset, levels=parse_names(levels), **given)
    result = run(config, progress_bar("audit", quiet=quiet))
    for note in result.notes:
        say(f"note: {note}", quiet=quiet)
    for level, why in result.left_out.items():
        say(f"not looked at: near ones of level {level}: {why}", quiet=quiet)
    if result.error is not None:
        for item in result.evidence:
            sides = "; ".join(
                f"{split}: {side['examples']} examples, {', '.join(side['rows'])}"
                for split, side in item["sides"].items()
            )
            say(f"{item['kind']} {item['value']}: {sides}", quiet=quiet)
    print_verdict(result.to_json(), result.error, as_json=as_json, text=_verdict(result))


def _verdict(result: AuditResult) -> str:
    if len(result.splits) < 2:
        return f"{result.path}\tnothing to audit: the dataset was never split"
    permitted = sum(result.permitted.values())
    note = f", {permitted} boilerplate values on two sides are permitted" if permitted else ""
    looked = ", ".join(result.leaks)
    return f"{result.path}\tno leak between {', '.join(result.splits)} in {result.examples} examples ({looked}){note}"
