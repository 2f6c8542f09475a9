"""What every benchmark says: the machine and versions, and its figures as a table for people or one JSON object."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from processes import Run


def about(*packages: str, device: str | None = None) -> dict[str, Any]:
    """The machine and the versions of what is measured.

    Args:
        device: what does the work, where that is not the cores.
    """
    worker = device or f"{os.cpu_count()} cores"
    return {
        "machine": f"{platform.system()} {platform.machine()}, {worker}, load {os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def heading(facts: dict[str, Any]) -> str:
    """`about` in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return f"{facts['machine']}; Python {facts['python']}; {versions}"


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of figures in columns, named in the first line; a row may lack some. Numbers stand right, words left."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    words = [all(isinstance(row.get(name, ""), str) for row in rows) for name in names]
    return [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, words, strict=True)
        ).rstrip()
        for row in cells
    ]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else str(value)


def row_of(what: str, runs: Sequence[Run], count: int, unit: str = "examples") -> dict[str, Any]:
    """A row of figures of one command: medians over its rounds, and the largest memory."""
    seconds = statistics.median(run.seconds for run in runs)
    return {
        "what": what,
        "seconds": round(seconds, 2),
        f"{unit}_per_second": round(count / seconds),
        "cpu_seconds": round(statistics.median(run.cpu for run in runs), 2),
        "parent_mb": round(max(run.parent_mb for run in runs)),
        "worker_mb": round(max(run.worker_mb for run in runs)),
        "rounds": len(runs),
    }


def publish(facts: dict[str, Any], found: dict[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    """Print one JSON object of it all, or the heading and `lines`."""
    if as_json:
        print(json.dumps({"about": facts, **found}))
    else:
        print("\n".join([heading(facts), *lines]))
