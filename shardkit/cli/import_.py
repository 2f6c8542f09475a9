"""`shardkit import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    dry_run_option,
    json_option,
    options,
    overwrite_option,
    parse_pairs,
    progress_bar,
    quiet_option,
    say,
    shard_options,
    workers_option,
)
from shardkit.cli.ingest import print_answer
from shardkit.errors import ConfigError
from shardkit.prepare.import_ import IMPORTS
from shardkit.prepare.import_.run import FORMATS, ImportConfig, run
from shardkit.prepare.ingest.config import MISSING_IMAGE

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
_size = click.IntRange(min=1)


@click.command("import", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", type=_FILE, nargs=-1, required=True)
@click.option("--from", "kind", type=click.Choice(list(IMPORTS)), required=True, help="What wrote the set.")
@click.option("-o", "--out", "output", type=_FILE, help="The dataset to write. [required without --dry-run]")
@click.option("--as", "format_name", type=click.Choice(FORMATS), help="What its rows are. [default: as they show]")
@shard_options
@click.option("--source", metavar="NAME", help="Name of the source. [default: that of the input folder]")
@click.option("--revision", metavar="R", help="Revision of the source, for provenance.")
@click.option("--retrieved-at", metavar="WHEN", help="When the source was fetched, for provenance.")
@click.option("--licence", "--license", metavar="L", help="Licence of the assets, for provenance.")
@click.option("--images", type=_FILE, multiple=True, metavar="DIR",
              help="Where image paths lie, of a set that has paths instead of pictures. Repeatable. [default: the folder of each file]")  # fmt: skip
@click.option("--url-map", "url_maps", type=_FILE, multiple=True, metavar="FILE",
              help="Local files of addresses, as of `shardkit ingest`. Repeatable.")  # fmt: skip
@click.option("--field", "fields", multiple=True, metavar="NAME=COLUMN", help="Which column plays a part. Repeatable.")
@click.option("--group-by", metavar="FIELD",
              help="What a split may not divide: a metadata field, @source, @domain, @path or @path:REGEX.")  # fmt: skip
@click.option("--on-error", type=click.Choice(["exclude", "fail"]), default="exclude", show_default=True,
              help="What a bad row does.")  # fmt: skip
@click.option("--on-missing-image", type=click.Choice(MISSING_IMAGE),
              help="What an image that cannot be used does. [default: drop-image for interleaved documents, else drop-document]")  # fmt: skip
@click.option("--max-bad", type=click.FloatRange(0, 1), default=0.05, show_default=True, metavar="SHARE",
              help="Commit nothing where more rows are bad; judged from 1,000 rows on.")  # fmt: skip
@click.option("--limit", type=_size, metavar="N", help="Read at most N rows.")
@click.option("--salvage", is_flag=True, help="Keep the whole rows before the damage of a cut or broken file.")
@click.option("--keep-metadata", is_flag=True, help="Store images with their EXIF, comments and other baggage.")
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
