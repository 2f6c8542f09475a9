"""`shardkit decontaminate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    datasets_argument,
    embedding_column_option,
    max_removed_option,
    output_option,
    parse_pairs,
    print_dataset,
    progress_bar,
    say,
    stage_options,
)
from shardkit.errors import ConfigError
from shardkit.prepare.decontaminate.config import (
    ACTIONS,
    NGRAMS,
    Benchmark,
    DecontaminateConfig,
    DecontaminateResult,
)
from shardkit.prepare.decontaminate.run import run
from shardkit.prepare.dedup import semantic

_SUFFIXES = (".gz", ".zst", ".bz2", ".jsonl", ".ndjson", ".parquet", ".csv", ".tsv")
_COLUMNS = ("items", "searchable", "contaminated", "common", "review", "examples")


@click.command("decontaminate")
@datasets_argument
@click.option(
    "--against",
    multiple=True,
    required=True,
    metavar="BENCH",
    help="A benchmark: a dataset, or JSON lines, Parquet or CSV with image, question and answer, or a folder of these; "
    "NAME=BENCH names it. Repeatable.",
)
@output_option
@click.option(
    "--action",
    type=click.Choice(ACTIONS),
    default=ACTIONS[0],
    show_default=True,
    help="Leave contaminated rows out, or only write the evidence.",
)
@click.option(
    "--ngram",
    "ngrams",
    multiple=True,
    metavar="TOKENS[=SHARE],...",
    help="A text holds an item where it holds this share of the item's n-grams. Repeatable. "
    f"[default: {', '.join(f'{width}={share}' for width, share in NGRAMS.items())}]",
)
@click.option(
    "--common-groups",
    type=Whole(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="What more groups hold is common: a quotation or a template, reported and not left out.",
)
@click.option(
    "--common-share",
    type=click.FloatRange(0, 1),
    default=0.0001,
    show_default=True,
    metavar="SHARE",
    help="The same as a share of all groups, and of those of each source; the larger of the two holds.",
)
@max_removed_option
@click.option(
    "--bench-field",
    "fields",
    multiple=True,
    metavar="PART=COLUMN",
    help="Column of the benchmarks' tables that holds the question, answer, context, image, choices or id. Repeatable.",
)
@click.option(
    "--embeddings",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Vectors of the pictures of inputs and benchmarks, Parquet or Arrow with asset_id and a fixed-size list. "
    "Repeatable.",
)
@embedding_column_option
@click.option(
    "--embedding-threshold",
    type=click.FloatRange(0, 1, min_open=True),
    default=semantic.THRESHOLD,
    show_default=True,
    metavar="COSINE",
    help="From this cosine on two vectors are of one picture.",
)
@click.option("--self-test", is_flag=True, help="Plant known items first, and stop where one is not found.")
@stage_options
def command(
    *,
    datasets: tuple[Path, ...],
    against: tuple[str, ...],
    ngrams: tuple[str, ...],
    fields: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Leave out what benchmarks hold: their pictures, and their texts by shared n-grams.

    \b
    contaminated  the row holds an item of the benchmark, and is left out
    common        so many documents hold it that it is a quotation or a template; the row stays
    review        pages that look alike without a text that could decide, or a short question beside another
                  picture; the row stays
    All of it is in tables/evidence.parquet.

    \b
    shardkit decontaminate work/clean --against bench/docvqa.jsonl --against ocr=bench/ocr.parquet -o work/fair
    """
    config = DecontaminateConfig(
        inputs=datasets,
        benchmarks=tuple(_benchmark(value) for value in against),
        ngrams=_ngrams(ngrams) if ngrams else dict(NGRAMS),
        fields=parse_pairs(fields, "--bench-field"),
        **given,
    )
    result = run(config, progress_bar("decontaminate", quiet=quiet))
    if result.refused:
        say(f"would be refused: {result.refused}", quiet=quiet)
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _benchmark(value: str) -> Benchmark:
    name, equals, place = value.partition("=")
    if equals and name and place and "/" not in name:
        return Benchmark(name=name, path=Path(place))
    path = Path(value)
    stem = path.name or path.resolve().name
    while stem.lower().endswith(_SUFFIXES):
        stem = stem.rpartition(".")[0]
    return Benchmark(name=stem, path=path)


def _ngrams(values: Sequence[str]) -> dict[int, float]:
    """8,13 or 8=0.8; without a share the default of that length, or of the longest."""
    shares: dict[int, float] = {}
    for value in (part.strip() for given in values for part in given.split(",")):
        width, equals, share = value.partition("=")
        try:
            number = int(width)
            found = float(share) if equals else NGRAMS.get(number, NGRAMS[max(NGRAMS)])
        except ValueError:
            raise ConfigError(f"--ngram {value} is not TOKENS=SHARE", hint="write --ngram 13=0.5") from None
        if number in shares:
            raise ConfigError(f"--ngram names {number} twice", hint="give each length once")
        shares[number] = found
    return shares


def _table(result: DecontaminateResult) -> str:
    counts, report = result.counts, result.report
    lines = []
    if result.self_test is not None:
        lines.append(f"self-test: planted {result.self_test.planted}, found {result.self_test.found}")
    lines.append(f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}")
    rows = report["benchmarks"]
    width = max([len("benchmark"), *map(len, rows)])
    lines.append(f"  {'benchmark':{width}} " + " ".join(f"{name:>12}" for name in _COLUMNS))
    lines += [
        f"  {name:{width}} " + " ".join(f"{row[column]:>12}" for column in _COLUMNS) for name, row in rows.items()
    ]
    unsearchable = sum(row["items"] - row["searchable"] for row in rows.values())
    if unsearchable:
        lines.append(f"items that are too short, templates or blank, and cannot be found: {unsearchable}")
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
