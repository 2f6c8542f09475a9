"""`shardkit import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    dry_run_option,
    json_option,
    options,
    output_option,
    overwrite_option,
    parse_pairs,
    progress_bar,
    quiet_option,
    say,
    shard_options,
    workers_option,
)
from shardkit.cli.ingest import print_answer, raw_options
from shardkit.errors import ConfigError
from shardkit.prepare.import_ import IMPORTS
from shardkit.prepare.import_.run import FORMATS, ImportConfig, run

EPILOG = """\b
Sets:
  hf          a folder that Hugging Face datasets saved (save_to_disk), or Parquet and Arrow files as on the Hub
  mds         a folder that MosaicML's MDSWriter wrote: index.json and shards, plain or compressed
  webdataset  tars of samples

\b
Example:
  shardkit import --from hf pairs_saved -o work/pairs --licence CC-BY-4.0
  shardkit import --from mds laion_mds --as caption --field caption=TEXT -o work/laion
"""
_FILE = click.Path(path_type=Path)


@click.command("import", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=_FILE, nargs=-1, required=True)
@click.option("--from", "kind", type=click.Choice(list(IMPORTS)), required=True, help="What wrote the set.")
@output_option
@click.option("--as", "format_name", type=click.Choice(FORMATS), help="What its rows are. [default: as they show]")
@shard_options
@raw_options
@options(workers_option, overwrite_option, dry_run_option, json_option, quiet_option)
def command(
    *, kind: str, paths: tuple[Path, ...], format_name: str | None, as_json: bool, quiet: bool, **given: Any
) -> None:
    """Take in a set that another tool prepared: every row kept, or excluded with its reason.

    Its splits are recorded as the metadata field `split`; `shardkit split` makes some that are proven to share nothing.
    """
    given["fields"] = parse_pairs(given["fields"], "--field")
    if given["output"] is None and not given["dry_run"]:
        raise ConfigError("there is no output", hint="give -o DATASET, or --dry-run")
    read_as, result = run(
        ImportConfig(kind=kind, paths=paths, format=format_name, ingest=given),
        progress_bar(f"import {kind}", quiet=quiet, unit="B"),
        lambda text: say(text, quiet=quiet),
    )
    if format_name is None:
        say(f"rows read as: {read_as}", quiet=quiet)
    print_answer(result, read_as, as_json=as_json, quiet=quiet)
