"""`shardkit select`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, output_option, print_dataset, progress_bar, stage_options
from shardkit.prepare.result import StageResult
from shardkit.prepare.select.columns import ALIASES, COLUMNS
from shardkit.prepare.select.config import SelectConfig
from shardkit.prepare.select.run import run

_WIDTH = max(map(len, COLUMNS))


def _columns(*, of_image: bool) -> str:
    return "\n".join(
        f"  {name:{_WIDTH}}  {column.meaning}" for name, column in COLUMNS.items() if column.of_image == of_image
    )


_HELP = f"""Keep the examples of which a condition holds; the others are counted as exclusions.

The output is a view: it refers to the shards of the input.

\b
comparisons   == != < <= > >=   in ('a', 'b')   is null   like 'a%'   matches 'a+b'   + - * /
joined by     and   or   not   ( )
images        a condition must hold of every image of an example; any(...) is true of one, all(...) of each

\b
Columns of an example:
{_columns(of_image=False)}
\b
Columns of each image:
{_columns(of_image=True)}
\b
metadata.NAME is a field of the metadata. {", ".join(f"{name} is {column}" for name, column in ALIASES.items())}.
What is not known makes no condition hold: write `x is null or ...`.

\b
shardkit select work/clean --where "width >= 256 and lang == 'en' and licence != 'unknown'" -o work/english
shardkit select work/clean --where "images == 0 or not any(has_gps)" --dry-run
shardkit select work/captions --where "metadata.similarity >= 0.3 and aspect <= 3 and aspect >= 1/3" -o work/good
"""


@click.command("select", help=_HELP)
@dataset_argument
@click.option("--where", required=True, metavar="CONDITION", help="Which examples stay.")
@output_option
@stage_options
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    result = run(SelectConfig(input=dataset, **given), progress_bar("select", quiet=quiet))
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _table(result: StageResult) -> str:
    counts, report = result.counts, result.report
    lines = [f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}"]
    lines += [
        f"  {row['false']:>9} do not hold, {row['unknown']:>9} cannot be told: {row['condition']}"
        for row in report["conditions"]
    ]
    lines += [f"  {source}: kept {row['kept']} of {row['read']}" for source, row in report["by_source"].items()]
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
