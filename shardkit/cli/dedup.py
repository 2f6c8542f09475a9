"""`shardkit dedup`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    datasets_argument,
    embedding_column_option,
    embedding_field_option,
    max_removed_option,
    output_option,
    parse_names,
    parse_numbers,
    print_dataset,
    progress_bar,
    say,
    stage_options,
)
from shardkit.prepare.dedup.boilerplate import LEAST_DOCUMENTS, LEAST_SHARE
from shardkit.prepare.dedup.config import BOILERPLATE, DEFAULT_LEVELS, RELATIONS, SHARD_SIZE, DedupConfig, DedupResult
from shardkit.prepare.dedup.levels import LEVELS, ONLY_BOILERPLATE
from shardkit.prepare.dedup.near_text import PRESETS
from shardkit.prepare.dedup.perceptual import TRANSFORMS
from shardkit.prepare.dedup.run import run

_TEXTS_SHOWN = 5


@click.command("dedup")
@datasets_argument
@output_option
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="LEVEL,...",
    help=f"What counts as a duplicate: {', '.join(LEVELS)}. Repeatable. [default: {','.join(DEFAULT_LEVELS)}]",
)
@click.option(
    "--preset",
    type=click.Choice(sorted(PRESETS)),
    default="web",
    show_default=True,
    help="What a near text is: web, five tokens in a row; ocr, two, which stands more misread words.",
)
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="LEVEL=SCORE",
    help="The score from which a near level removes. Repeatable. [default: the level's own, see docs/dedup.md]",
)
@click.option(
    "--transforms",
    multiple=True,
    metavar="NAME,...",
    help=f"Look for pictures changed so, too: {', '.join(TRANSFORMS)}. Repeatable.",
)
@click.option(
    "--embeddings",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Vectors of examples (or of images) for the level semantic: Parquet with example_id (or asset_id) and a "
    "fixed-size list. Repeatable.",
)
@embedding_column_option
@embedding_field_option
@click.option(
    "--reference",
    "references",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DATASET",
    help="Compare with this dataset, too: its rows always stay and are not part of the output. Repeatable.",
)
@click.option(
    "--priority",
    multiple=True,
    metavar="SOURCE",
    help="Keep examples of this source rather than others. Repeatable, the first before the second.",
)
@max_removed_option
@click.option(
    "--boilerplate-min",
    type=Whole(min=1),
    default=LEAST_DOCUMENTS,
    show_default=True,
    metavar="N",
    help="Report lines that stand in more than so many documents of a site.",
)
@click.option(
    "--boilerplate-share",
    type=click.FloatRange(0, 1),
    default=LEAST_SHARE,
    show_default=True,
    metavar="SHARE",
    help="And in more than this share of them.",
)
@click.option(
    "--boilerplate",
    type=click.Choice(BOILERPLATE),
    default="report",
    show_default=True,
    help="Name such lines, or take them out of the texts, too; a document without any other goes.",
)
@click.option(
    "--relations",
    type=click.Choice(RELATIONS),
    default="drop",
    show_default=True,
    help="Captions of images that go: drop them, or move those with another text to the example that stays.",
)
@click.option(
    "--shard-size",
    type=Whole(min=1),
    default=SHARD_SIZE,
    show_default=True,
    metavar="BYTES",
    help="A shard of changed examples closes when its payload reaches this.",
)
@stage_options
def command(
    *,
    datasets: tuple[Path, ...],
    levels: tuple[str, ...],
    thresholds: tuple[str, ...],
    transforms: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Remove duplicates, across all datasets at once. The output refers to the shards of its inputs; examples whose
    texts change are written to its own.

    \b
    exact       the same image bytes and the same text
    pixel       images of the same pixels and the same text
    perceptual  images that look alike and the same text; a page goes only where its text agrees, numbers and all
    text        the same text or nearly so, and no image; one with an image of its own is never removed for its text
    semantic    vectors that are next to each other, of --embeddings
    The same image with another text stays, and a split keeps the two together.

    \b
    shardkit dedup work/captions work/pages -o work/clean
    shardkit dedup work/captions work/web -o work/equal --level exact,pixel --priority captions
    shardkit dedup work/web -o work/articles --boilerplate remove --boilerplate-min 50
    shardkit dedup work/new -o work/fresh --reference work/clean
    shardkit dedup work/web --level text --preset ocr --threshold text=0.7 --dry-run
    """
    config = DedupConfig(
        inputs=datasets,
        levels=parse_names(levels) or DEFAULT_LEVELS,
        thresholds=parse_numbers(thresholds, "--threshold", float),
        transforms=parse_names(transforms),
        **given,
    )
    result = run(config, progress_bar("dedup", quiet=quiet))
    if result.refused:
        say(f"would be refused: {result.refused}", quiet=quiet)
    print_dataset(result, _table(result), as_json=as_json, quiet=quiet)


def _table(result: DedupResult) -> str:
    counts, report = result.counts, result.report
    lines = [f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}"]
    by_source: Mapping[str, Mapping[str, int]] = report["by_source"]
    reasons = [name for name in (*LEVELS, ONLY_BOILERPLATE) if any(name in row for row in by_source.values())]
    names = ("read", *reasons, "kept")
    width = max([len("source"), *map(len, by_source)])
    lines.append(f"  {'source':{width}} " + " ".join(f"{name:>10}" for name in names))
    lines += [
        f"  {source:{width}} " + " ".join(f"{row[name]:>{max(10, len(name))}}" for name in names)
        for source, row in sorted(by_source.items())
    ]
    sharing, texts = report["same_images_other_text"], report["frequent_texts"]
    if sharing["examples"]:
        lines.append(
            f"same images, other text: {sharing['examples']} examples; they stay, and a split keeps them together"
        )
    conflicts = report["conflicting_annotations"]
    if conflicts["pairs"]:
        lines.append(f"equal images from which different texts were read: {conflicts['pairs']} pairs; they stay")
        lines += [
            f"  {' / '.join(pair['ids'])}  {' / '.join(pair['texts'])}" for pair in conflicts["top"][:_TEXTS_SHOWN]
        ]
    if texts["texts"]:
        lines.append(f"texts beside several images: {texts['texts']}, in {texts['examples']} examples; they stay")
        lines += [f"  {row['examples']:>8}  {row['text']}" for row in texts["top"][:_TEXTS_SHOWN]]
    plates = report["boilerplate"]
    if plates["paragraphs"]:
        lines.append(
            f"lines that a site repeats: {plates['paragraphs']} on {plates['sites']} sites, "
            f"in {plates['documents']} examples; "
            + (
                f"{plates['removed']} went, and {plates['emptied']} examples with them"
                if plates["removed"]
                else "they stay"
            )
        )
        lines += [
            f"  {row['documents']:>8} of {row['site_documents']} of {row['site']}  {row['excerpt']}"
            for row in plates["top"][:_TEXTS_SHOWN]
        ]
    moved = report["relations"]
    if moved["moved"] or moved["left_out"]:
        lines.append(
            f"captions moved: {moved['moved']}, to {moved['examples']} examples; "
            f"{moved['left_out']} examples had one for which there is no place"
        )
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
