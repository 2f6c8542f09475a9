"""`shardkit tokenizer`: train, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    Whole,
    base_option,
    datasets_argument,
    dry_run_option,
    json_option,
    print_result,
    progress_bar,
    quiet_option,
    read_options,
    say,
    train_split_option,
    workers_option,
)
from shardkit.errors import ConfigError
from shardkit.prepare.tokenizer.config import Report, ReportConfig, TrainConfig, TrainResult
from shardkit.prepare.tokenizer.measured import rates
from shardkit.prepare.tokenizer.report import report
from shardkit.prepare.tokenizer.train import run
from shardkit.text.training import PATTERNS

SHOWN = 20
"""Unused tokens that are named; --json has all."""


@click.group("tokenizer")
def command() -> None:
    """Train a tokenizer on datasets, or say what one makes of them.

    \b
    shardkit tokenizer train work/split -o tokenizer/ --vocab-size 6400
    shardkit tokenizer report tokenizer/ work/split
    """


@command.command("train", short_help="learn a vocabulary from the texts of datasets")
@datasets_argument
@click.option(
    "-o", "--out", "output", type=click.Path(path_type=Path), help="The folder to write. [required without --dry-run]"
)
@click.option(
    "--vocab-size", type=Whole(min=1), default=6400, show_default=True, metavar="N",
    help="Entries, control tokens and the 256 bytes included.",
)  # fmt: skip
@click.option(
    "--control-tokens", type=click.Path(path_type=Path), metavar="FILE",
    help="TOML or JSON: special, functional, buffers, and which is pad, unk, bos, eos. [default: 36, as docs/tokenizer.md lists them]",
)  # fmt: skip
@click.option(
    "--pattern", type=click.Choice(list(PATTERNS)), default="qwen2", show_default=True,
    help="Where texts are cut before pairs are counted.",
)  # fmt: skip
@click.option(
    "--chat-template", type=click.Path(path_type=Path), metavar="FILE", help="A jinja2 file or a tokenizer_config.json. [default: ChatML with tools and reasoning]"
)  # fmt: skip
@train_split_option
@click.option(
    "--max-bytes", type=Whole(min=1), default=20_000_000, show_default=True, metavar="BYTES",
    help="Text to learn from; of more a share of the examples is drawn, by their ids. A byte of Chinese takes some 70 of memory.",
)  # fmt: skip
@workers_option
@click.option("--overwrite", is_flag=True, help="Replace a tokenizer of ours at -o, after the new one is safe on disk.")
@dry_run_option
@base_option
@json_option
@quiet_option
def train_command(*, datasets: tuple[Path, ...], as_json: bool, quiet: bool, **given: Any) -> None:
    """Learn a byte-level BPE vocabulary from the texts of datasets: turns, captions, pages, paragraphs.

    Writes tokenizer.json, tokenizer_config.json with the chat template, and training.json. Equal text gives equal files,
    whatever the order of the inputs and the number of workers.

    \b
    shardkit tokenizer train work/chat work/web --vocab-size 6400 -o tokenizer/
    """
    if given["output"] is None and not given["dry_run"]:
        raise ConfigError("there is no output", hint="name a folder with -o, or use --dry-run")
    result = run(TrainConfig(inputs=datasets, **given), progress_bar("tokenizer train", quiet=quiet, unit="B"))
    say(_trained(result, given["vocab_size"]), quiet=quiet)
    text = f"{result.path or '(dry run)'}\t{result.digest or 'not written'}"
    print_result(result.to_json(), as_json=as_json, text=text)


def _trained(result: TrainResult, asked: int) -> str:
    text = result.text
    lines = [
        f"{text['examples']} of {text['examples_there']} examples, {text['bytes']} of {text['bytes_there']} bytes of text"
    ]
    if result.measured is not None:
        lines += [f"{result.vocab_size} entries; on this text", *rates(result.measured)]
    if result.vocab_size is not None and result.vocab_size < asked:
        lines.append(f"the text has no more pairs than for {result.vocab_size} of {asked} entries; name more text")
    if not result.has_template:
        lines.append("no chat template: the control tokens lack its marks; give one with --chat-template")
    if result.unchanged:
        lines.append("unchanged")
    return "\n".join(lines)


@command.command("report", short_help="characters a token, unused tokens, overlap with another")
@click.argument("tokenizer", type=click.Path(path_type=Path))
@datasets_argument
@click.option("--against", type=click.Path(path_type=Path), metavar="OTHER", help="Another tokenizer, to compare with.")
@click.option("--split", metavar="NAME", help="Only examples of this split. [default: all]")
@workers_option
@read_options
def report_command(
    *, datasets: tuple[Path, ...], bases: tuple[Path, ...], as_json: bool, quiet: bool, **given: Any
) -> None:
    """Characters a token by script, tokens that no text needs, and what another vocabulary shares.

    TOKENIZER is any tokenizer.json of the tokenizers library, or the folder that holds one.

    \b
    shardkit tokenizer report tokenizer/ work/split --against other/tokenizer.json
    """
    found = report(ReportConfig(inputs=datasets, bases=bases, **given), progress_bar("tokenizer report", quiet=quiet))
    print_result(found.to_json(), as_json=as_json, text=_table(found))


def _table(found: Report) -> str:
    measured = found.measured
    kept = "" if found.lossless else f"; {measured.changed} texts do not come back from their ids"
    lines = [
        f"{found.tokenizer}: {found.vocab_size} entries, {found.num_controls} of them control tokens{kept}",
        *rates(measured.to_json()),
        f"{len(found.unused)} of {found.num_entries} entries for text unused",
    ]
    if found.unused:
        more = f" and {len(found.unused) - SHOWN} more" if len(found.unused) > SHOWN else ""
        lines.append(f"  {' '.join(found.unused[:SHOWN])}{more}")
    if found.other is not None:
        rest = found.num_entries + found.num_other - found.shared
        lines += [
            f"{found.against}: {found.num_other} entries for text, {found.shared} shared ({found.shared / max(1, rest):.1%} of both)",
            *rates(found.other.to_json()),
        ]
    return "\n".join(lines)
