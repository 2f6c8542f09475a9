"""`shardkit split`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    dataset_argument,
    output_option,
    print_dataset,
    progress_bar,
    shard_options,
    stage_options,
)
from shardkit.prepare.dedup.near_text import PRESETS
from shardkit.prepare.split.config import (
    EDGES,
    MISSING_GROUP,
    MISSING_PARENT,
    MISSING_TIME,
    UNIT_SIZE,
    SplitConfig,
    SplitResult,
    parse_ratios,
)
from shardkit.prepare.split.run import run
from shardkit.prepare.split.times import parse_cutoffs

_FILE = click.Path(path_type=Path)
_LANGUAGES = 12
_size = Whole(min=1)


@click.command("split")
@dataset_argument
@output_option
@click.option(
    "--ratios", metavar="NAME=SHARE,...", help="Any number of splits; shares add up to 1. [default: those of --like]"
)
@click.option("--split-by-time", "time_field", metavar="FIELD",
              help="Divide by the time in a metadata field instead of by shares; a group goes where its latest example belongs.")  # fmt: skip
@click.option("--cutoff", "cutoffs", multiple=True, metavar="[NAME=]DATE",
              help="From when on a split begins, test where no NAME is given; before the first it is train. Repeatable.")  # fmt: skip
@click.option("--group-by", metavar="FIELD",
              help="What may not be divided: a metadata field, @source, @domain, @path or @path:REGEX (its first capture group). [default: that of --like, else the group that ingest gave]")  # fmt: skip
@click.option("--on-missing-group", type=click.Choice(MISSING_GROUP), default="own", show_default=True,
              help="An example without a key is a group of its own, or stops the run.")  # fmt: skip
@click.option("--on-missing-time", type=click.Choice(MISSING_TIME), default="exclude", show_default=True,
              help="An example whose time is missing or cannot be read is left out, or stops the run.")  # fmt: skip
@click.option("--edges", type=click.Choice(EDGES), default="near", show_default=True,
              help="Tie what is near, as dedup found it, else compared now; or only what is equal.")  # fmt: skip
@click.option("--preset", type=click.Choice(list(PRESETS)),
              help="What near texts are. [default: as dedup or --like took it, else web]")  # fmt: skip
@click.option("--like", type=_FILE, metavar="OLD",
              help="An older split: what it placed stays where it is, and its options hold where none are given.")  # fmt: skip
@click.option("--parents", type=_FILE, multiple=True, metavar="DATASET",
              help="Holds what examples were made from: they are tied as their parents are. Repeatable.")  # fmt: skip
@click.option("--parent-field", metavar="FIELD",
              help="A metadata field with the example id, or ids, of what an example was made from.")  # fmt: skip
@click.option("--on-missing-parent", type=click.Choice(MISSING_PARENT), default="fail", show_default=True,
              help="Stop where a parent is nowhere and nothing else groups the example, or tie those of one parent alone.")  # fmt: skip
@click.option(
    "--salt", metavar="TEXT", help="Another salt is another split of the same data. [default: that of --like]"
)
@click.option("--exact", is_flag=True,
              help="Fill the shares greedily, also from 200 groups on, where hashing alone would place them.")  # fmt: skip
@click.option("--frequent-asset-limit", type=_size, default=20, show_default=True, metavar="N",
              help="An image or text that stands in more declared groups, or is near to what does, is boilerplate: it ties nothing and is listed.")  # fmt: skip
@click.option("--max-group-share", type=click.FloatRange(0, 1, min_open=True), default=0.05, show_default=True,
              metavar="SHARE", help="Stop where joined groups of over 1,000 examples hold a larger share.")  # fmt: skip
@click.option("--allow-empty", is_flag=True, help="A split may get nothing.")
@shard_options
@click.option("--unit-size", type=_size, default=UNIT_SIZE, show_default=True, metavar="BYTES",
              help="Payload of one unit of work; shards do not cross units.")  # fmt: skip
@stage_options
def command(
    *, dataset: Path, ratios: str | None, cutoffs: tuple[str, ...], as_json: bool, quiet: bool, **given: Any
) -> None:
    """Divide a dataset into splits that share no group, image or text, and nothing near.

    Groups are joined where they share an image, its pixels or a text, where these are near, and where one was made from
    another. Shards are written anew, in streaming order: groups whole, sources interleaved. Of a tokenized dataset each
    sequence goes where its example goes.

    \b
    shardkit split work/clean -o work/split --ratios train=0.9,val=0.05,test=0.05
    shardkit split work/lines -o work/lines-split --ratios train=0.8,test=0.2 --group-by '@path:([^/]+)_[0-9]+_[0-9]+'
    shardkit split work/news -o work/news-split --split-by-time published --cutoff val=2021-01-01 --cutoff test=2021-07-01
    shardkit split work/more -o work/split2 --like work/split
    shardkit split work/whole-tokens -o work/tokens-split --ratios train=0.9,test=0.1
    """
    if ratios is None and given["time_field"] is None and given["like"] is None:
        raise click.UsageError("Missing option '--ratios', '--split-by-time' or '--like': how to divide.")
    config = SplitConfig(
        input=dataset,
        ratios=None if ratios is None else parse_ratios(ratios),
        cutoffs=parse_cutoffs(cutoffs),
        **given,
    )
    result = run(config, progress_bar("split", quiet=quiet))
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _table(result: SplitResult) -> str:
    counts, report = result.counts, result.report
    groups, splits = report["groups"], {name: report["splits"][name] for name in result.names}
    lines = [
        f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}",
        (
            f"{groups['components']} components of {groups['declared']} declared groups ({groups['joined']} join several), "
            f"{groups['without_key']} examples without a key, {groups['near_pairs']} near pairs"
        ),
    ]
    width = max(map(len, splits))
    for name, split in splits.items():
        asked = "" if split["asked"] is None else f" (asked {split['asked']:.2%}, {split['deviation']:+.2%})"
        prefix = report["prefixes"][name]
        worst = (
            f"; worst prefix of {prefix['shards']} shards {prefix['worst_deviation']:.2%}" if prefix["source"] else ""
        )
        lines.append(
            f"  {name:{width}} {split['examples']:>9} examples {split['groups']:>7} components {split['share']:>8.2%}{asked}{worst}"
        )
    for title, rows in (("source", report["by_source"]), ("language", report["by_language"])):
        order = sorted(rows, key=lambda name: (-sum(cell["examples"] for cell in rows[name].values()), name))
        for name in order[:_LANGUAGES]:
            cells = ", ".join(f"{split} {_cell(rows[name][split])}" for split in result.names)
            lines.append(f"  {title} {name}: {cells}")
        if len(order) > _LANGUAGES:
            lines.append(f"  {len(order) - _LANGUAGES} more by {title} with --json")
    lines += [f"  boilerplate: {count} of kind {kind}" for kind, count in report["boilerplate"].items() if count]
    lines += [f"  {_conflict(item)}" for item in report["conflicts"]["listed"]]
    lines += [f"warning: {note}" for note in report["notes"]]
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)


def _cell(cell: dict[str, Any]) -> str:
    apart = "" if cell["deviation"] is None else f" ({cell['deviation']:+.2%})"
    return f"{cell['examples']} in {cell['groups']}{apart}"


def _conflict(item: dict[str, Any]) -> str:
    placed = ", ".join(f"{count} in {name}" for name, count in item["placed"].items()) or "none of these examples"
    return f"conflict in {item['component']}: placed before {placed}; it takes {item['takes']}, {item['left_out']} left out"
