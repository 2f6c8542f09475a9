"""`shardkit stats`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from shardkit.cli.common import dataset_argument, options, print_result, progress_bar, read_options, workers_option
from shardkit.prepare.report.stats import StatsConfig, run

_COLUMNS = ("examples", "images", "pixels", "bytes", "sequences", "tokens")


@click.command("stats")
@dataset_argument
@options(workers_option, read_options)
def command(*, dataset: Path, as_json: bool, quiet: bool, **given: Any) -> None:
    """Say what a dataset holds: by source and split, licences, exclusions, lengths and sizes.

    \b
    shardkit stats work/split
    shardkit stats work/tokens --json
    """
    figures = run(StatsConfig(dataset=dataset, **given), progress_bar("stats", quiet=quiet))
    print_result(figures, as_json=as_json, text=_text(figures))


def _text(figures: Mapping[str, Any]) -> str:
    rows = {
        f"{source} / {split}": cell
        for source, cells in figures["by_source_and_split"].items()
        for split, cell in cells.items()
    }
    rows["all"] = figures["totals"]
    columns = [name for name in _COLUMNS if any(name in cell for cell in rows.values())]
    width = max(map(len, rows))
    lines = [
        f"{figures['dataset']}\t{figures['id']}",
        f"{figures['stage']}: read {figures['read']}, kept {figures['kept']}, excluded {figures['excluded']}",
        *(f"  excluded {count}: {reason}" for reason, count in figures["excluded_by_reason"].items()),
        f"{'':{width}} " + " ".join(f"{name:>14}" for name in columns),
        *(f"{name:{width}} " + " ".join(f"{cell.get(c, 0):>14}" for c in columns) for name, cell in rows.items()),
        "licences: " + (", ".join(f"{name} {count}" for name, count in figures["licences"].items()) or "none"),
    ]
    lines += [
        f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures[name].items())
        for name in ("text_characters", "image_width", "image_height", "image_pixels")
        if figures[name]
    ]
    return "\n".join(lines)
