"""`shardkit stats`: what a dataset holds, in every unit, and what became of every raw row.

Read from columns and tables; no image is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import as_int32, slices
from shardkit.prepare.dedup.names import Names
from shardkit.prepare.report.chain import balance, chain
from shardkit.prepare.report.measure import MODALITIES, Measured, measure
from shardkit.prepare.report.shares import Dimension, Numbers, sequence_units, shares
from shardkit.prepare.result import example_counts
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from shardkit.text import language

_QUANTILES = {"min": 0.0, "p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
_TOKENS = {"tokens": "num_tokens", "supervised": "num_supervised"}
UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsConfig:
    dataset: Path
    objectives: Mapping[str, Fraction] = field(default_factory=dict)
    """Weight of an objective's target tokens in the unit `loss`; 1 where it is not named."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    remote: RemoteSettings | None = None
    """How a dataset behind a URL is reached, and where its files are kept."""


class _Rows:
    """What was measured of all N rows, put in part by part."""

    def __init__(self, count: int) -> None:
        self.sources, self.annotators, self.languages = Names(count), Names(count), Names(count)
        self.numbers = {
            name: np.zeros(count, np.int64) for name in ("modalities", "images", "pixels", "characters", "num_bytes")
        }
        self._widths, self._heights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]

    def put(self, part: Measured) -> None:
        for name in ("sources", "annotators", "languages"):
            getattr(self, name).put(part.positions, *getattr(part, name))
        for name, values in self.numbers.items():
            values[part.positions] = getattr(part, name)
        self._widths.append(part.widths)
        self._heights.append(part.heights)

    def sizes(self) -> tuple[Numbers, Numbers]:
        """Widths and heights of all images, in whatever order."""
        return np.concatenate(self._widths), np.concatenate(self._heights)


def run(config: StatsConfig, on_progress: Progress = silent) -> dict[str, Any]:
    """The figures of a dataset as JSON values.

    Raises:
        ConfigError: for a weight that is none.
        SourceError: where no dataset is.
        IntegrityError: where a file is missing or damaged, or rows are lost on the road from the raw inputs.
    """
    dataset = Dataset.open(config.dataset, base=config.bases, remote=config.remote)
    accounts = balance(chain(dataset))
    table = dataset.table("examples", ["shard_index", "row"])
    shards, positions = as_int32(table["shard_index"]), np.arange(table.num_rows)
    if table.num_rows != accounts["final_rows"]:
        raise IntegrityError(
            f"tables/examples has {table.num_rows} rows, the counts say {accounts['final_rows']}",
            where=dataset.where,
            hint="run `shardkit verify` on it, or build it again",
        )
    pieces = list(slices(dataset, config.bases, shards, as_int32(table["row"]), positions))
    rows = _Rows(table.num_rows)
    for done, part in enumerate(map_ordered(measure, pieces, workers=config.workers), 1):
        rows.put(part)
        on_progress(done, len(pieces), "reading")
    splits = np.array([dataset.splits.index(shard.split) for shard in dataset.shards] or [0])[shards]
    codes, names = rows.sources.sorted()
    cells = _cells(rows, codes, names, splits, dataset.splits)
    _add_tokens(cells, dataset)
    return {
        "dataset": dataset.where,
        "id": dataset.id,
        "stage": dataset.stage,
        "splits": list(dataset.splits),
        **example_counts(dataset.manifest.counts),
        "accounts": accounts,
        "totals": _sum(cell for row in cells.values() for cell in row.values()),
        "by_source": {source: _sum(row.values()) for source, row in sorted(cells.items())},
        "by_split": {split: _sum(row[split] for row in cells.values() if split in row) for split in dataset.splits},
        "by_source_and_split": {
            source: {split: _sum([cell]) for split, cell in sorted(row.items())}
            for source, row in sorted(cells.items())
        },
        "shares": _shares(rows, Dimension(name="source", names=names, codes=codes), dataset, config),
        "licences": _licences(dataset),
        "languages": _languages(rows),
        **_distributions(rows, dataset),
    }


def _shares(rows: _Rows, source: Dimension, dataset: Dataset, config: StatsConfig) -> dict[str, Any]:
    codes, names = rows.annotators.sorted()
    dimensions = [
        source,
        Dimension(name="annotator", names=names, codes=codes),
        Dimension(name="modality", names=MODALITIES, codes=rows.numbers["modalities"]),
    ]
    units = {
        "example": np.ones(len(source.codes), np.int64),
        "bytes": rows.numbers["num_bytes"],
        "media": rows.numbers["pixels"],
        **sequence_units(dataset, config.objectives),
    }
    return shares(dimensions, units)


def _languages(rows: _Rows) -> dict[str, Any]:
    """Examples by language; those without a text are not among them."""
    codes, names = rows.languages.sorted()
    counts = np.bincount(codes[codes >= 0], minlength=len(names)).tolist()
    return {"model": language.model(), "examples": dict(zip(names, counts, strict=True))}


def _distributions(rows: _Rows, dataset: Dataset) -> dict[str, Any]:
    wide, high = rows.sizes()
    found = {
        "text_characters": quantiles(rows.numbers["characters"]),
        "example_bytes": quantiles(rows.numbers["num_bytes"]),
        "example_images": quantiles(rows.numbers["images"]),
        "image_width": quantiles(wide),
        "image_height": quantiles(high),
        "image_pixels": quantiles(wide * high),
    }
    if dataset.has_table("lengths"):
        tokens = dataset.table("lengths", ["num_tokens"])["num_tokens"]
        found["sequence_tokens"] = quantiles(np.asarray(tokens.to_numpy(), np.int64))
    return found


def quantiles(values: npt.NDArray[np.int64]) -> dict[str, float]:
    """Smallest, largest, some between (values that occur, not interpolated) and the mean; empty without values."""
    if len(values) == 0:
        return {}
    found = {name: int(np.quantile(values, share, method="inverted_cdf")) for name, share in _QUANTILES.items()}
    return {**found, "mean": round(float(values.mean()), 3)}


Cells = dict[str, dict[str, Counter[str]]]
"""Source -> split -> units."""


def _cells(
    rows: _Rows, codes: Numbers, names: Sequence[str], splits: npt.NDArray[np.int64], split_names: Sequence[str]
) -> Cells:
    """Rows, images, pixels and bytes of each source in each split that has any."""
    cells: Cells = {}
    place = codes * len(split_names) + splits
    found, inverse = np.unique(place, return_inverse=True)
    sums = {"examples": np.bincount(inverse, minlength=len(found))}
    for unit, name in (("images", "images"), ("pixels", "pixels"), ("bytes", "num_bytes")):
        sums[unit] = np.zeros(len(found), np.int64)
        np.add.at(sums[unit], inverse, rows.numbers[name])
    for number, both in enumerate(found.tolist()):
        source, split = names[both // len(split_names)], split_names[both % len(split_names)]
        cells.setdefault(source, {})[split] = Counter({unit: int(values[number]) for unit, values in sums.items()})
    return cells


def _add_tokens(cells: Cells, dataset: Dataset) -> None:
    """Sequences and tokens, where the dataset was tokenized."""
    if not dataset.has_table("lengths"):
        return
    table = dataset.table("lengths", ["source", "split", *_TOKENS.values()])
    sums = [(column, "sum") for column in _TOKENS.values()]
    grouped = table.group_by(["source", "split"]).aggregate([*sums, ([], "count_all")])
    for row in grouped.to_pylist():
        cell = cells.setdefault(row["source"], {}).setdefault(row["split"], Counter())
        cell.update({name: row[f"{column}_sum"] for name, column in _TOKENS.items()})
        cell["sequences"] += row["count_all"]


def _sum(cells: Any) -> dict[str, int]:
    """Units added up; every example unit is named, 0 or not."""
    total: Counter[str] = Counter(dict.fromkeys(("examples", "images", "pixels", "bytes"), 0))
    for cell in cells:
        total.update(cell)
    return dict(sorted(total.items()))


def _licences(dataset: Dataset) -> dict[str, int]:
    """Licence -> rows of provenance (an image, or a text-only example, at one origin) that state it."""
    column = pc.fill_null(dataset.table("provenance", ["licence"])["licence"], UNKNOWN)
    counts = {row["values"]: row["counts"] for row in pc.value_counts(column).to_pylist()}
    return dict(sorted(counts.items()))
