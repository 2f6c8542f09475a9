"""`shardkit stats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import (
    dataset_argument,
    options,
    parse_numbers,
    print_result,
    progress_bar,
    remote_read_options,
    workers_option,
)
from shardkit.prepare.report.stats import StatsConfig, run
from shardkit.records.counts import exact
from shardkit.sequence.objectives import OBJECTIVES

_COLUMNS = ("examples", "images", "pixels", "bytes", "sequences", "tokens")
_DISTRIBUTIONS = (
    "text_characters", "example_bytes", "example_images", "image_width", "image_height", "image_pixels", "sequence_tokens",
)  # fmt: skip
_SHOWN = 20
"""Values of a dimension that the text shows; --json has all."""


@click.command("stats")
@dataset_argument
@click.option(
    "--objective", "objectives", multiple=True, metavar="NAME=WEIGHT",
    help=f"Weight of target tokens in the unit `loss`: {', '.join(list(OBJECTIVES)[1:])}. Repeatable. [default: 1 each]",
)  # fmt: skip
@options(workers_option, remote_read_options)
def command(*, dataset: Path, objectives: tuple[str, ...], as_json: bool, quiet: bool, **given: Any) -> None:
    """Say what a dataset holds, and what became of every raw row: shares by source, annotator and modality in every
    unit, licences, languages, lengths and sizes, exclusions through all stages.

    \b
    shardkit stats work/split
    shardkit stats work/tokens --objective answer=2 --json
    """
    config = StatsConfig(dataset=dataset, objectives=parse_numbers(objectives, "--objective", exact), **given)
    figures = run(config, progress_bar("stats", quiet=quiet))
    print_result(figures, as_json=as_json, text="\n".join(_lines(figures)))


def _lines(figures: Mapping[str, Any]) -> Iterator[str]:
    yield f"{figures['dataset']}\t{figures['id']}"
    yield from _accounts(figures["accounts"])
    yield ""
    yield from _units(figures)
    for name, values in figures["shares"].items():
        yield ""
        yield from _shares(name, values)
    yield ""
    yield "licences: " + _counts(figures["licences"])
    yield "languages: " + _counts(figures["languages"]["examples"])
    for name in _DISTRIBUTIONS:
        if figures.get(name):
            yield f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures[name].items())


def _accounts(accounts: Mapping[str, Any]) -> Iterator[str]:
    """Where every raw row went, from the raw inputs on."""
    for stage in reversed(accounts["stages"]):
        times = f", {stage['times']} times" if stage["times"] > 1 else ""
        yield f"{stage['stage']} {stage['id'][:12]}: read {stage['read']} = kept {stage['kept']} + excluded {stage['excluded']}{times}"
        yield from (f"  excluded {count}: {reason}" for reason, count in stage["excluded_by_reason"].items())
        for missing in stage["inputs_not_found"]:
            yield f"  its input {missing[:12]} is not where it was: name its folder with --base to account for it"
    unknown = accounts["rows_of_missing_inputs"]
    begun = f"{accounts['raw_rows']} raw rows" + (f" + {unknown} rows of inputs that were not found" if unknown else "")
    yield f"{begun} = {accounts['final_rows']} here + {accounts['num_excluded']} excluded on the way"


def _units(figures: Mapping[str, Any]) -> Iterator[str]:
    rows = {
        f"{source} / {split}": cell
        for source, cells in figures["by_source_and_split"].items()
        for split, cell in cells.items()
    }
    rows["all"] = figures["totals"]
    columns = [name for name in _COLUMNS if any(name in cell for cell in rows.values())]
    width = max(map(len, rows))
    yield f"{'':{width}} " + " ".join(f"{name:>14}" for name in columns)
    yield from (f"{name:{width}} " + " ".join(f"{cell.get(c, 0):>14}" for c in columns) for name, cell in rows.items())


def _shares(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Shares in percent, the largest by examples first."""
    ordered = sorted(values.items(), key=lambda item: (-item[1]["amounts"]["example"], item[0]))
    if not ordered:
        return
    units = list(ordered[0][1]["shares"])
    width = max(len(f"share by {name}"), *(min(len(value), 60) for value, _ in ordered[:_SHOWN]))
    yield f"{f'share by {name}':{width}} " + " ".join(f"{unit:>9}" for unit in units)
    for value, found in ordered[:_SHOWN]:
        yield f"{value[:60]:{width}} " + " ".join(f"{100 * found['shares'][unit]:8.2f}%" for unit in units)
    if len(ordered) > _SHOWN:
        yield f"and {len(ordered) - _SHOWN} more; --json has all"


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    more = f", and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return (", ".join(f"{name} {count}" for name, count in ordered[:_SHOWN]) + more) or "none"
