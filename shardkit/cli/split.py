"""`shardkit split`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, print_result, progress_bar, say, stage_options
from shardkit.prepare.split.config import MISSING_GROUP, UNIT_SIZE, SplitConfig, SplitResult, parse_ratios
from shardkit.prepare.split.run import run
from shardkit.store.units import SHARD_FORMATS

_FILE = click.Path(path_type=Path)
_size = click.IntRange(min=1)


@click.command("split")
@dataset_argument
@click.option("-o", "--out", "output", type=_FILE, help="The dataset to write.")
@click.option("--ratios", required=True, metavar="NAME=SHARE,...", help="Any number of splits; shares add up to 1.")
@click.option("--group-by", metavar="FIELD",
              help="What may not be divided: a metadata field, @source, @domain, @path or @path:REGEX (its first capture group). [default: the group that ingest gave]")  # fmt: skip
@click.option("--on-missing-group", type=click.Choice(MISSING_GROUP), default="own", show_default=True,
              help="An example without a key is a group of its own, or stops the run.")  # fmt: skip
@click.option("--like", type=_FILE, metavar="OLD", help="An older split: what it placed stays where it is.")
@click.option("--salt", default="", metavar="TEXT", help="Another salt is another split of the same data.")
@click.option("--frequent-asset-limit", type=_size, default=20, show_default=True, metavar="N",
              help="An image or text in more declared groups is boilerplate: it ties nothing and is listed.")  # fmt: skip
@click.option("--max-group-share", type=click.FloatRange(0, 1, min_open=True), default=0.05, show_default=True,
              metavar="SHARE", help="Stop where joined groups of over 1,000 examples hold a larger share.")  # fmt: skip
@click.option("--allow-empty", is_flag=True, help="A split may get nothing.")
@click.option("--shards", type=click.Choice(list(SHARD_FORMATS)), default="arrow", show_default=True)
@click.option("--shard-size", type=_size, default=256_000_000, show_default=True, metavar="BYTES",
              help="A shard closes when its payload reaches this.")  # fmt: skip
@click.option("--unit-size", type=_size, default=UNIT_SIZE, show_default=True, metavar="BYTES",
              help="Payload of one unit of work; shards do not cross units.")  # fmt: skip
@stage_options
def command(*, dataset: Path, ratios: str, as_json: bool, quiet: bool, **given: Any) -> None:
    """Divide a dataset into splits that share no group, image or text.

    Groups are joined where they share an image, its pixels or a text. Shards are written anew, in streaming order.

    \b
    shardkit split work/clean -o work/split --ratios train=0.9,val=0.05,test=0.05
    shardkit split work/lines -o work/split --ratios train=0.8,test=0.2 --group-by '@path:([^/]+)_[0-9]+_[0-9]+'
    shardkit split work/more -o work/split2 --ratios train=0.9,val=0.05,test=0.05 --like work/split
    """
    config = SplitConfig(input=dataset, ratios=parse_ratios(ratios), **given)
    result = run(config, progress_bar("split", quiet=quiet))
    table = _table(result)
    if not result.dry_run:
        say(table, quiet=quiet)
    text = table if result.dry_run else f"{result.path}\t{result.dataset_id}"
    print_result(result.to_json(), as_json=as_json, text=text)


def _table(result: SplitResult) -> str:
    counts, report = result.counts, result.report
    groups = report["groups"]
    lines = [
        f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}",
        (
            f"{groups['components']} components of {groups['declared']} declared groups ({groups['joined']} join several), "
            f"{groups['without_key']} examples without a key"
        ),
    ]
    splits = dict(sorted(report["splits"].items(), key=lambda item: -item[1]["asked"]))
    width = max(map(len, splits))
    lines += [
        f"  {name:{width}} {split['examples']:>9} examples {split['groups']:>7} components "
        f"{split['share']:>8.2%} (asked {split['asked']:.2%})"
        for name, split in splits.items()
    ]
    for source, row in sorted(report["by_source"].items()):
        lines.append(f"  {source}: " + ", ".join(f"{name} {row[name]}" for name in splits))
    lines += [f"  boilerplate: {count} of kind {kind}" for kind, count in report["boilerplate"].items() if count]
    lines += report["notes"]
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
