"""`shardkit export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import Whole, dataset_argument, options, print_result, progress_bar, say, stage_options
from shardkit.errors import ConfigError
from shardkit.prepare.export import EXPORTS, ExportConfig, ExportResult, run
from shardkit.prepare.export.config import About
from shardkit.prepare.export.self_contained import SelfContainedConfig
from shardkit.prepare.export.self_contained import run as copy_whole

EPILOG = "\b\nFormats:\n" + "\n".join(f"  {name:<12} {form.about}" for name, form in EXPORTS.items())


@click.command("export", epilog=EPILOG)
@dataset_argument
@click.option("--format", "format_name", type=click.Choice(list(EXPORTS)), help="[required without --self-contained]")
@click.option(
    "--self-contained", is_flag=True,
    help="Without --format: the dataset itself, with those that it refers to copied into it, to be moved anywhere. The formats "
    "are always self-contained.",
)  # fmt: skip
@click.option(
    "-o", "--out", "output", type=click.Path(path_type=Path), help="The folder to write. [required without --dry-run]"
)
@click.option("--split", "splits", multiple=True, metavar="NAME", help="Only this split. Repeatable. [default: all]")
@click.option(
    "--shard-size", type=Whole(min=1), default=256_000_000, show_default=True, metavar="BYTES",
    help="A file closes when its payload reaches this.",
)  # fmt: skip
@click.option("--name", metavar="NAME", help="What the card calls the dataset. [default: its sources]")
@click.option("--url", metavar="URL", help="Where it is published, for the card and Croissant.")
@click.option("--creator", "creators", multiple=True, metavar="NAME", help="Who made it. Repeatable.")
@click.option("--published", metavar="YYYY-MM-DD", help="When it was published.")
@click.option("--citation", metavar="TEXT", help="How to cite it.")
@options(stage_options)
def command(
    *,
    format_name: str | None,
    self_contained: bool,
    name: str | None,
    url: str | None,
    creators: tuple[str, ...],
    published: str | None,
    citation: str | None,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Write a dataset as others read it, pictures as they are stored, with a dataset card beside it.

    \b
    shardkit export work/split --format hf -o out/hf
    shardkit export work/split --format jsonl --split train -o out/train
    shardkit export work/tokens --self-contained -o out/tokens
    """
    if given["output"] is None and not given["dry_run"]:
        raise ConfigError("there is no output", hint="name a folder with -o, or use --dry-run")
    if format_name is None:
        _copy(self_contained=self_contained, as_json=as_json, quiet=quiet, **given)
        return
    about = About(name=name, url=url, creators=creators, published=published, citation=citation)
    result = run(
        ExportConfig(format=format_name, about=about, **given), progress_bar(f"export {format_name}", quiet=quiet)
    )
    _say(result, about, quiet=quiet)
    print_result(result.to_json(), as_json=as_json, text=f"{result.path or '(dry run)'}\t{result.dataset_id}")


def _copy(*, self_contained: bool, as_json: bool, quiet: bool, splits: tuple[str, ...], **given: Any) -> None:
    """A whole dataset, not in a format of others."""
    if not self_contained:
        raise click.UsageError("Missing option '--format'.")
    if splits:
        raise ConfigError("a self-contained copy has all splits", hint="leave out --split, or choose a --format")
    fields = ("dataset", "output", "bases", "overwrite", "dry_run")
    config = SelfContainedConfig(**{field: given[field] for field in fields})
    result = copy_whole(config, progress_bar("export", quiet=quiet, unit="B"))
    note = "; unchanged" if result.unchanged else ""
    say(f"{result.num_inputs} inputs, {result.num_files} files, {result.num_bytes} bytes{note}", quiet=quiet)
    print_result(result.to_json(), as_json=as_json, text=f"{result.path or '(dry run)'}\t{result.dataset_id}")


def _say(result: ExportResult, about: About, *, quiet: bool) -> None:
    counts = result.counts
    note = "unchanged" if result.unchanged else f"{result.num_files} files, {result.num_bytes} bytes"
    say(f"{counts['examples']} examples; {note}", quiet=quiet)
    if counts.get("other_ids"):
        say(
            f"{counts['other_ids']} of them get another example id when they are read again: bytes that are no picture "
            "were removed from their images",
            quiet=quiet,
        )
    if result.format == "croissant":
        given = {"--url": about.url, "--creator": about.creators, "--published": about.published}
        lacking = [option for option, value in given.items() if not value]
        if lacking:
            say(f"Croissant asks for what only you know: {', '.join(lacking)}", quiet=quiet)
