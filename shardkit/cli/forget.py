"""`shardkit forget`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    dataset_argument,
    output_option,
    print_dataset,
    progress_bar,
    say,
    shard_options,
    stage_options,
)
from shardkit.prepare.lineage.forget.config import ForgetConfig, ForgetResult
from shardkit.prepare.lineage.forget.run import run

_PATH = click.Path(path_type=Path)


@click.command("forget")
@dataset_argument
@click.option("--asset", "assets", multiple=True, metavar="ID",
              help="A picture by its id, as `shardkit head --json` shows it, or the first 8 digits and more: its bytes go, and equal pixels of other files. Repeatable.")  # fmt: skip
@click.option("--source", "sources", multiple=True, metavar="URI",
              help="A source, a raw file or FILE:ROW, the address of a picture or document. Repeatable.")  # fmt: skip
@click.option("--licence", "--license", "licences", multiple=True, metavar="L",
              help="Everything that came under this licence; `unknown` where none is stated. Repeatable.")  # fmt: skip
@output_option
@click.option("--also", type=_PATH, multiple=True, metavar="DIR",
              help="List the datasets below this folder that still hold the bytes. Repeatable.")  # fmt: skip
@shard_options
@stage_options
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Write a dataset without an asset, a source or a licence, and without all that derives from it.

    Shards are written anew. Then the output is read again to prove that no bytes, ids and origins of it are left.

    \b
    shardkit forget work/split --asset 0656f11bcd1a -o work/split2 --also work
    shardkit forget work/clean --source https://example.org/a.jpg --licence CC-BY-NC -o work/clean2 --dry-run
    """
    result = run(ForgetConfig(input=dataset, **given), progress_bar("forget", quiet=quiet))
    print_dataset(result, "\n".join(_lines(result)), as_json=as_json, quiet=quiet)
    for held in result.also:
        say(_held(held))  # asked for by name, so --quiet does not take it away


def _lines(result: ForgetResult) -> Iterator[str]:
    counts, report = result.counts, result.report
    yield f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}"
    for reason, number in counts["excluded_by_reason"].items():
        yield f"  excluded {number}: {reason}"
    yield f"forgotten: the bytes of {report['assets']} pictures, {report['origins']} origins"
    if report["elsewhere"]:
        yield f"{report['elsewhere']} pictures stay, because they came from another place too; --asset forgets them"
    if result.proof is not None:
        proof = result.proof
        sequences = f"{proof['sequences']} sequences, " if "sequences" in proof else ""
        yield (
            f"proved: none of it in {sequences}{proof['examples']} examples, {proof['images']} pictures "
            f"({proof['bytes']} bytes digested) and {proof['rows']} rows of tables"
        )
    if result.unchanged:
        yield "unchanged"


def _held(held: Mapping[str, Any]) -> str:
    if "problem" in held:
        return f"not looked into: {held['path']} ({held['problem']})"
    return f"still held: {held['path']}\t{held['id']}\t{held['assets']} pictures, {held['examples']} examples"
