"""`shardkit tokenize`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    datasets_argument,
    parse_pairs,
    print_result,
    progress_bar,
    say,
    stage_options,
)
from shardkit.cli.spelled import plain, sequence_lines
from shardkit.prepare.tokenize.chunk import TEXTS_CHANGED
from shardkit.prepare.tokenize.config import TokenizeConfig, TokenizeResult
from shardkit.prepare.tokenize.run import run
from shardkit.prepare.tokenize.show import show as spell_out
from shardkit.sequence.recipes import OVERLONG, RECIPES


@click.command("tokenize")
@datasets_argument
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(path_type=Path),
    help="The dataset to write. [required without --dry-run or --show]",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    required=True,
    help="A tokenizer.json, or the folder that holds one.",
)
@click.option("--recipe", required=True, metavar="NAME|FILE", help=f"One of {', '.join(RECIPES)}, or a TOML file.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the recipe, before its file. Repeatable.",
)
@click.option(
    "--chat-template",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A tokenizer_config.json or jinja2 file, for recipes of dialogues. [default: the project's own]",
)
@click.option(
    "--max-tokens",
    type=Whole(min=2),
    metavar="L",
    help="Longest sequence. [default: "
    + ", ".join(f"{kind.MAX_TOKENS} for {name}" for name, kind in RECIPES.items())
    + "]",
)
@click.option(
    "--overlong",
    type=click.Choice(OVERLONG),
    default="window",
    show_default=True,
    help="What happens to longer examples; an image is never cut.",
)
@click.option(
    "--add-control-tokens",
    is_flag=True,
    help="Append the control tokens that the recipe names and the tokenizer lacks.",
)
@click.option(
    "--show",
    type=Whole(min=1),
    metavar="N",
    help="Write nothing; spell out the sequences of the first N examples, with their targets and image slots.",
)
@stage_options
def command(
    *,
    datasets: tuple[Path, ...],
    output: Path | None,
    tokenizer: Path,
    recipe: str,
    settings: tuple[str, ...],
    chat_template: Path | None,
    max_tokens: int | None,
    overlong: str,
    add_control_tokens: bool,
    show: int | None,
    workers: int,
    overwrite: bool,
    dry_run: bool,
    bases: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Make sequences of examples, for one tokenizer and one recipe.

    The images stay where they are: the output refers to the shards of its inputs.

    \b
    shardkit tokenize work/split -o work/small-tokens --tokenizer tokenizer/ --recipe vlm --set image_size=112
    shardkit tokenize work/split -o work/plain --tokenizer tokenizer/tokenizer.json --recipe pretrain --max-tokens 1024
    shardkit tokenize work/split --tokenizer tokenizer/ --recipe sft --show 3
    """
    config = TokenizeConfig(
        inputs=datasets,
        output=output,
        tokenizer=tokenizer,
        recipe=recipe,
        settings=parse_pairs(settings, "--set"),
        chat_template=chat_template,
        max_tokens=max_tokens,
        overlong=overlong,
        add_control_tokens=add_control_tokens,
        bases=bases,
        workers=workers,
        overwrite=overwrite,
        dry_run=dry_run,
    )
    if show is not None:
        shown = spell_out(config, show)
        print_result({"examples": shown}, as_json=as_json, text="\n".join(_shown(shown)))
        return
    result = run(config, progress_bar("tokenize", quiet=quiet))
    say(_summary(result), quiet=quiet)
    print_result(
        result.to_json(), as_json=as_json, text=f"{result.path or '(dry run)'}\t{result.dataset_id or 'not written'}"
    )


def _shown(examples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for example in examples:
        yield plain(f"example {example['example_id']} of {example['source']}")
        if example["reason"]:
            yield plain(f"  left out, {example['reason']}: {example['detail']}")
        for sequence in example["sequences"]:
            yield from ("  " + line for line in sequence_lines(sequence))


def _summary(result: TokenizeResult) -> str:
    counts, totals = result.counts, result.totals
    sequences, tokens, supervised, images = (
        totals.get(name, 0) for name in ("sequences", "tokens", "supervised", "images")
    )
    lines = [
        f"read {counts['read']} examples, kept {counts['kept']}, excluded {counts['excluded']}",
        f"{sequences} sequences, {tokens} tokens ({supervised} supervised), {images} images",
    ]
    lines += [f"  excluded {count}: {reason}" for reason, count in counts["excluded_by_reason"].items()]
    lines += [f"  {name}: {count}" for name, count in counts["changes"].items()]
    if TEXTS_CHANGED in counts["changes"]:
        lines.append("  the vocabulary cannot spell these texts whole; another --tokenizer with all bytes could")
    if counts["read"] and not counts["kept"]:
        lines.append(
            "Warning: nothing was kept; `shardkit schema` says what the reasons mean, --show 1 shows an example"
        )
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)
