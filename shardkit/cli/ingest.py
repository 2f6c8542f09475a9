"""shardkit ingest: raw dumps to hashed shards with provenance."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from shardkit.cli.common import (
    Whole,
    dry_run_option,
    json_option,
    options,
    overwrite_option,
    parse_pairs,
    print_result,
    progress_bar,
    quiet_option,
    say,
    shard_options,
    workers_option,
)
from shardkit.errors import ConfigError, guess
from shardkit.media.limits import MediaLimits
from shardkit.prepare.ingest import AUTO, SOURCES, IngestConfig, IngestResult, resolved, run
from shardkit.prepare.ingest.config import MISSING_IMAGE, MISSING_LABEL
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.recipes import load, names
from shardkit.prepare.ingest.space import spoken
from shardkit.prepare.ingest.units import UNIT_BYTES
from shardkit.store.dataset import Dataset

EPILOG = """\b
Formats:
  auto               whichever of these the input shows; without -o it is only named
  rows (jsonl)       JSON lines or Parquet: {"text": "<image> ...", "images": [...]}
  caption            CSV, TSV, JSON lines or Parquet of image paths or addresses and texts, with or without a header, also
                     called .txt; IMAGE#NUMBER TAB text, as Flickr8k is published;
                     JSON of COCO, Karpathy's splits or SBU; tars, also of img2dataset; folders of STEM.jpg + STEM.txt
  webdataset         caption, tars only
  ocr                folders of STEM.png + STEM.gt.txt, STEM.txt or STEM.json; and all formats of OCR by what they hold
  alto, page, hocr   pictures + layout files (.xml, .alto.xml, .page.xml, .hocr, .html), also in folders beside them
  docbank            STEM_ori.jpg or STEM.jpg + STEM.txt of tokens, boxes and labels
  funsd              images/ID.png + annotations/ID.json of entities, words and links
  icdar, sroie       pictures + .txt or .csv of x1,y1,...,x4,y4,text; sroie with key/ID.json
  iit-cdip           ID.tif of all pages + ID.xml or ID.txt
  paddleocr          .txt or .json of PATH TAB text, PATH TAB [{"transcription", "points"}], or PATH id id id
  mmocr              JSON of MMOCR or TextOCR; JSON lines of {"file_name", "annotations"}; lines of NAME.png text
  synthtext          gt.mat (needs the extra: pip install 'shardkit[mat]')
  obelics            JSON lines or Parquet of interleaved documents: {"images": [...], "texts": [...]}
  mmc4               JSON lines or Parquet: {"text_list": [...], "image_info": [...]}
  markdown, html     folders of pages with their pictures (need the extra: pip install 'shardkit[web]')
  chat               JSON lines, a JSON array or Parquet: {"conversations": [...]}, {"messages": [...]},
                     {"instruction", "input", "output"}, {"chosen", "rejected"}; with pictures, where rows have them
  text               JSON lines or Parquet: {"text": "..."}; folders of .txt files

\b
Example:
  shardkit ingest caption pairs.csv --images pictures -o work/captions --licence CC-BY-4.0
  shardkit ingest --recipe coco-captions coco -o work/coco
  shardkit ingest caption tars -o work/more --new-since work/captions && shardkit concat work/captions work/more -o work/all

\b
Recipes:
""" + textwrap.fill(", ".join(names()), width=110, initial_indent="  ", subsequent_indent="  ")

_INPUTS_SHOWN = 20
_FILE = click.Path(path_type=Path)
_size = Whole(min=1)


class _FormatOrPath(click.Choice):  # type: ignore[type-arg]  # not generic before click 8.2
    """FORMAT, or with --recipe the first PATH: which of them it is shows when all options are known."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value


raw_options = options(
    click.option("--source", metavar="NAME", help="Name of the source. [default: that of the input folder]"),
    click.option("--revision", metavar="R", help="Revision of the source, for provenance."),
    click.option("--retrieved-at", metavar="WHEN", help="When the source was fetched, for provenance."),
    click.option("--licence", "--license", metavar="L", help="Licence of the assets, for provenance."),
    click.option("--images", type=_FILE, multiple=True, metavar="DIR",
                 help="Where image paths lie; nothing else is opened. Repeatable. [default: the folder of each input]"),
    click.option("--url-map", "url_maps", type=_FILE, multiple=True, metavar="FILE",
                 help='Local files of addresses, which are never fetched: JSON lines of {"url", "file"}, or tables, tars '
                      "and folders of img2dataset. Repeatable."),
    click.option("--field", "fields", multiple=True, metavar="NAME=COLUMN",
                 help="Which column plays a part. Repeatable."),
    click.option("--group-by", metavar="FIELD",
                 help="What a split may not divide: a metadata field, @source, @domain, @path or @path:REGEX."),
    click.option("--on-error", type=click.Choice(["exclude", "fail"]), default="exclude", show_default=True,
                 help="What a bad record does."),
    click.option("--on-missing-image", type=click.Choice(MISSING_IMAGE),
                 help="What an image that cannot be used does. [default: drop-image for interleaved documents, else drop-document]"),
    click.option("--max-bad", type=click.FloatRange(0, 1), default=0.05, show_default=True, metavar="SHARE",
                 help="Commit nothing where more records are bad; judged from 1,000 records on."),
    click.option("--limit", type=_size, metavar="N", help="Read at most N records."),
    click.option("--salvage", is_flag=True, help="Keep the whole records before the damage of a cut or broken input."),
    click.option("--keep-metadata", is_flag=True, help="Store images with their EXIF, comments and other baggage."),
)  # fmt: skip
"""Of the two commands that read what is no dataset yet: ingest and import."""


@click.command(epilog=EPILOG)
@click.argument("format", metavar="FORMAT", type=_FormatOrPath([AUTO, *SOURCES]))
@click.argument("paths", metavar="PATH...", type=_FILE, nargs=-1)
@click.option(
    "-o",
    "--out",
    "output",
    type=_FILE,
    help="The dataset to write. [required without --dry-run; auto names the format without]",
)
@shard_options
@click.option("--unit-size", type=_size, default=UNIT_BYTES, show_default=True, metavar="BYTES",
              help="Input of one unit of work; shards do not cross units.")  # fmt: skip
@click.option("--recipe", metavar="NAME|FILE",
              help="A public dataset by name, or a TOML file: gives FORMAT, columns, source, licence, group and revision; "
                   "options that are given win.")  # fmt: skip
@raw_options
@click.option("--label-vocab", type=_FILE, metavar="FILE",
              help="What token ids of labels stand for, one a line; recorded, and spelled out by paddleocr.")  # fmt: skip
@click.option("--on-missing-label", type=click.Choice(MISSING_LABEL), default="exclude", show_default=True,
              help="What an image without text does (ocr).")  # fmt: skip
@click.option("--new-since", type=_FILE, multiple=True, metavar="OLD",
              help="Leave out what this dataset was made from, when a dump has grown; `shardkit concat OLD NEW` joins the two. "
                   "Its inputs are compared and not decoded. Repeatable.")  # fmt: skip
@click.option("--max-pixels", type=_size, default=MediaLimits().max_pixels, show_default=True)
@click.option("--max-image-bytes", type=_size, default=MediaLimits().max_bytes, show_default=True)
@click.option("--max-aspect", type=_size, default=MediaLimits().max_aspect, show_default=True,
              help="Longer side over shorter side.")  # fmt: skip
@click.option("--missing-urls", type=_FILE, metavar="FILE",
              help="After the commit, write the addresses without a file here, as img2dataset reads them: .txt, .csv, .tsv, "
                   ".jsonl, .parquet.")  # fmt: skip
@options(workers_option, overwrite_option, dry_run_option, json_option, quiet_option)
def command(*, recipe: str | None, as_json: bool, quiet: bool, **given: Any) -> None:
    """Read raw dumps into one dataset: every record kept, or excluded with its reason."""
    given["format"], given["paths"] = _format_and_paths(given["format"], given["paths"], recipe)
    given["fields"] = parse_pairs(given["fields"], "--field")
    if recipe is not None:
        given = load(recipe).options(given)
    if given["output"] is None and not given["dry_run"] and given["format"] != AUTO:
        raise ConfigError("there is no output", hint="give -o DATASET, or --dry-run")
    limits = MediaLimits(
        max_pixels=given.pop("max_pixels"),
        max_bytes=given.pop("max_image_bytes"),
        max_aspect=given.pop("max_aspect"),
    )
    asked = IngestConfig(limits=limits, **given)
    config = resolved(asked)
    if asked.format == AUTO:
        say(f"detected: {config.format}", quiet=quiet)
    if config.output is None and not config.dry_run:
        print_result({"format": config.format}, as_json=as_json, text=config.format)
        return
    result = run(
        config,
        progress_bar(f"ingest {config.format}", quiet=quiet, unit="B"),
        lambda text: say(text, quiet=quiet),
    )
    print_answer(result, config.format, as_json=as_json, quiet=quiet)


def _format_and_paths(first: str, rest: tuple[Path, ...], recipe: str | None) -> tuple[str | None, tuple[Path, ...]]:
    """FORMAT and PATHs; with --recipe FORMAT may be left out."""
    is_format = first in (AUTO, *SOURCES)
    if recipe is not None and (not is_format or Path(first).exists()):
        return None, (Path(first), *rest)
    if not is_format:
        known = (AUTO, *SOURCES)
        raise click.BadParameter(
            f"{first!r} is not one of {', '.join(known)}{guess(first, known)}.", param_hint="FORMAT"
        )
    if not rest:
        raise click.UsageError("Missing argument 'PATH...'.")
    return first, rest


_COUNTS = ["input", "read", "kept", "excluded"]


def _accounts(dataset: Path) -> Iterator[str]:
    """A line for each input that holds records, where there are several; of many, only those with the most exclusions."""
    table = Dataset.open(dataset).table("inputs", [*_COUNTS, "excluded_by_reason"]).drop_null()
    if table.num_rows < 2:
        return
    table = table.sort_by([("excluded", "descending"), ("input", "ascending")])
    many = table.num_rows > _INPUTS_SHOWN
    for row in table.slice(0, _INPUTS_SHOWN).to_pylist():
        if many and not row["excluded"]:
            break
        reasons = ", ".join(f"{reason} {count}" for reason, count in orjson.loads(row["excluded_by_reason"]).items())
        account = f"read {row['read']} = kept {row['kept']} + excluded {row['excluded']}"
        yield f"  {plain(row['input'], 80)}: {account}" + (f" ({reasons})" if reasons else "")
    if many:
        yield f"  the accounts of all {table.num_rows} inputs are in tables/inputs.parquet"


def _why_nothing(result: IngestResult) -> str:
    """What people want to hear who look at an empty dataset; said with --quiet as well."""
    if not result.tally.read:
        return "for the input holds no records"
    first = None if result.path is None else next(iter(Dataset.open(result.path).exclusions()), None)
    if first is None:
        return "every record is excluded; --on-error fail names the first one"
    row = orjson.loads(first)
    return f"every record is excluded; the first: {row['input']}:{row['position']}: {row['detail']} ({row['reason']})"


def print_answer(result: IngestResult, name: str, *, as_json: bool, quiet: bool) -> None:
    counts = result.tally.to_json()
    note = "unchanged" if result.unchanged else f"{result.num_images} images, {result.num_bytes} bytes"
    say(f"read {counts['read']} = kept {counts['kept']} + excluded {counts['excluded']}; {note}", quiet=quiet)
    for reason, count in result.tally.excluded.most_common():
        say(f"  excluded {count}: {reason}", quiet=quiet)
    if not counts["kept"]:
        say(f"Warning: nothing was kept, {_why_nothing(result)}")
    if not quiet and result.path is not None:
        for line in _accounts(result.path):
            say(line, quiet=quiet)
    if result.num_ignored:
        say(f"  {result.num_ignored} more files, which {name} does not read", quiet=quiet)
    if result.disk_need is not None:
        say(f"the dataset may need {spoken(result.disk_need)} of disk", quiet=quiet)
    print_result(result.to_json(name), as_json=as_json, text=f"{result.path or '(dry run)'}\t{result.dataset or '-'}")
