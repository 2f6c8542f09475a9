"""`shardkit shrink`."""

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
from shardkit.media.shrink import MAX_QUALITY, MIN_QUALITY
from shardkit.prepare.result import StageResult
from shardkit.prepare.shrink.config import QUALITY, ShrinkConfig
from shardkit.prepare.shrink.run import run


@click.command("shrink")
@dataset_argument
@click.option("--max-side", type=Whole(min=1), required=True, metavar="PIXELS",
              help="Pictures with a longer side are made smaller; all others stay byte for byte.")  # fmt: skip
@click.option("--quality", type=click.IntRange(MIN_QUALITY, MAX_QUALITY), default=QUALITY, show_default=True,
              metavar="N", help="Of JPEG and lossy WebP.")  # fmt: skip
@output_option
@shard_options
@stage_options
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Make large pictures smaller: the one step that encodes pixels again.

    JPEG stays JPEG, PNG and WebP stay what they are; GIF, BMP, TIFF and PNM become PNG, other formats JPEG. The aspect
    is kept, layouts are scaled along, groups and splits are inherited. The new files are assets of their own, and
    provenance names what they were made from.

    \b
    shardkit shrink work/split --max-side 1024 -o work/small
    shardkit shrink work/pages --max-side 2048 --quality 85 --dry-run
    """
    result = run(ShrinkConfig(input=dataset, **given), progress_bar("shrink", quiet=quiet))
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _table(result: StageResult) -> str:
    report = result.report
    lines = [
        f"{result.counts['kept']} examples, {report['shrunk']} of {report['images']} pictures made smaller",
        f"  {report['bytes_before'] / 1e6:.1f} MB of pictures before, {report['bytes_after'] / 1e6:.1f} MB now",
    ]
    lines += [f"  {count:>9} {name}" for name, count in report["by_media_type"].items()]
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
