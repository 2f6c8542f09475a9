"""`shardkit report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    dataset_argument,
    options,
    overwrite_option,
    print_result,
    progress_bar,
    read_options,
    say,
    workers_option,
)
from shardkit.prepare.report.site.config import SHOWN, SIDE, ReportConfig
from shardkit.prepare.report.site.run import run


@click.command("report")
@dataset_argument
@click.option("-o", "--out", "output", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option("--show", "shown", type=Whole(min=1), default=SHOWN, show_default=True, metavar="N",
              help="Clusters, pairs, leaks and exclusions of a reason that a page shows; it says how many there are.")  # fmt: skip
@click.option("--thumbnails", "side", type=int, default=SIDE, show_default=True, metavar="PIXELS",
              help="The longer side of pictures; 0 for none.")  # fmt: skip
@click.option("--audit/--no-audit", "audit", default=True, show_default=True,
              help="Of a dataset that is split look for leaks, which decodes every picture.")  # fmt: skip
@options(workers_option, overwrite_option, read_options)
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Write pages of HTML about a dataset: accounts, shares, duplicates and leaks with their pictures, exclusions.

    The pages are whole by themselves, pictures included: open index.html in a browser. They show texts and pictures of
    the dataset, so keep them as you keep it.

    \b
    shardkit report work/split -o work/report
    shardkit report work/clean -o work/duplicates --show 200 --thumbnails 256
    """
    result = run(ReportConfig(dataset=dataset, **given), progress_bar("report", quiet=quiet))
    if result.unchanged:
        say("unchanged", quiet=quiet)
    if result.leaks:
        say(f"{result.leaks} values stand on two sides of the split: see leaks.html", quiet=quiet)
    print_result(result.to_json(), as_json=as_json, text=f"{result.path / 'index.html'}\t{result.dataset_id}")
