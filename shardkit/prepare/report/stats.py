"""`shardkit stats`: what a dataset holds by source and split, its licences, sizes, lengths and exclusions.

Read from columns and tables; no image is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import Progress, map_ordered, silent
from shardkit.prepare.dedup.inputs import Slice, as_int32, open_slice, slices
from shardkit.store.dataset import Dataset

_QUANTILES = {"min": 0.0, "p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
_UNITS = ("examples", "images", "pixels", "bytes")
_TOKENS = {"tokens": "num_tokens", "supervised": "num_supervised"}
UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class StatsConfig:
    dataset: Path
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Part:
    positions: npt.NDArray[np.int64]
    sources: list[str]
    images: npt.NDArray[np.int64]
    """[n] images of each row."""
    text_lengths: npt.NDArray[np.int64]
    """[n] characters."""
    num_bytes: npt.NDArray[np.int64]
    """[n] payload."""
    widths: npt.NDArray[np.int64]
    heights: npt.NDArray[np.int64]
    """[m] of each image."""


def run(config: StatsConfig, on_progress: Progress = silent) -> dict[str, Any]:
    """The figures of a dataset as JSON values.

    Raises:
        SourceError: where no dataset is.
        IntegrityError: where a file is missing or damaged.
    """
    dataset = Dataset.open(config.dataset, base=config.bases)
    table = dataset.table("examples", ["shard_index", "row"])
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    pieces = list(slices(dataset, config.bases, shards, rows, np.arange(len(rows))))
    splits = np.array([dataset.splits.index(shard.split) for shard in dataset.shards] or [0])[shards]
    cells: dict[str, dict[str, Counter[str]]] = {}
    texts = np.zeros(len(rows), np.int64)
    widths, heights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for done, part in enumerate(map_ordered(_measure, pieces, workers=config.workers), 1):
        _add(cells, part, [dataset.splits[k] for k in splits[part.positions]])
        texts[part.positions] = part.text_lengths
        widths.append(part.widths)
        heights.append(part.heights)
        on_progress(done, len(pieces), "reading")
    _add_tokens(cells, dataset)
    wide, high = np.concatenate(widths), np.concatenate(heights)
    counts = dataset.manifest.counts
    return {
        "dataset": str(config.dataset),
        "id": dataset.id,
        "stage": dataset.stage,
        "splits": list(dataset.splits),
        **{name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")},
        "totals": _sum(cell for row in cells.values() for cell in row.values()),
        "by_source": {source: _sum(row.values()) for source, row in sorted(cells.items())},
        "by_split": {split: _sum(row[split] for row in cells.values() if split in row) for split in dataset.splits},
        "by_source_and_split": {
            source: {split: _sum([cell]) for split, cell in sorted(row.items())}
            for source, row in sorted(cells.items())
        },
        "licences": _licences(dataset),
        "text_characters": quantiles(texts),
        "image_width": quantiles(wide),
        "image_height": quantiles(high),
        "image_pixels": quantiles(wide * high),
    }


def quantiles(values: npt.NDArray[np.int64]) -> dict[str, float]:
    """Smallest, largest, some between (values that occur, not interpolated) and the mean; empty without values."""
    if len(values) == 0:
        return {}
    found = {name: int(np.quantile(values, share, method="inverted_cdf")) for name, share in _QUANTILES.items()}
    return {**found, "mean": round(float(values.mean()), 3)}


def _measure(piece: Slice) -> _Part:
    """Sizes of the rows of a slice; run by a worker."""
    reader = open_slice(piece)
    table = (
        reader.columns(("example_id", "source", "segments", "images", "metadata"))
        .take(pa.array(piece.rows))
        .combine_chunks()
    )
    segments, images = _list(table["segments"]), _list(table["images"])
    lengths = _per_row(segments, pc.utf8_length(segments.values.field("text")))
    text_bytes = _per_row(segments, pc.binary_length(segments.values.field("text")))
    image_bytes = _per_row(images, images.values.field("size"))
    ids = _per_row(images, pc.binary_length(images.values.field("asset_id")))
    others = [np.asarray(pc.binary_length(table[name]).to_numpy(), np.int64) for name in ("example_id", "metadata")]
    part = _Part(
        positions=piece.positions,
        sources=table["source"].to_pylist(),
        images=np.diff(images.offsets.to_numpy()).astype(np.int64),
        text_lengths=lengths,
        num_bytes=text_bytes + image_bytes + ids + sum(others),
        widths=_ints(images.values.field("width")),
        heights=_ints(images.values.field("height")),
    )
    reader.close()
    return part


def _list(column: pa.ChunkedArray) -> pa.ListArray:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _ints(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.int64)


def _per_row(lists: pa.ListArray, values: pa.Array) -> npt.NDArray[np.int64]:
    """The sum of each row's values."""
    sums = np.append(0, np.cumsum(_ints(values)))
    ends = lists.offsets.to_numpy()
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]], np.int64)


def _add(cells: dict[str, dict[str, Counter[str]]], part: _Part, splits: Sequence[str]) -> None:
    """Add the rows of a part to the cell of their source and split."""
    pixels = part.widths * part.heights
    of_row = np.append(0, np.cumsum(pixels))
    ends = np.append(0, np.cumsum(part.images))
    row_pixels = of_row[ends[1:]] - of_row[ends[:-1]]
    keys = list(zip(part.sources, splits, strict=True))
    for source, split in dict.fromkeys(keys):
        own = np.array([key == (source, split) for key in keys], np.bool_)
        values = (own.sum(), part.images[own].sum(), row_pixels[own].sum(), part.num_bytes[own].sum())
        cell = cells.setdefault(source, {}).setdefault(split, Counter())
        cell.update(dict(zip(_UNITS, map(int, values), strict=True)))


def _add_tokens(cells: dict[str, dict[str, Counter[str]]], dataset: Dataset) -> None:
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
    total: Counter[str] = Counter(dict.fromkeys(_UNITS, 0))
    for cell in cells:
        total.update(cell)
    return dict(sorted(total.items()))


def _licences(dataset: Dataset) -> dict[str, int]:
    """Licence -> rows of provenance (an image, or a text-only example, at one origin) that state it."""
    column = pc.fill_null(dataset.table("provenance", ["licence"])["licence"], UNKNOWN)
    counts = {row["values"]: row["counts"] for row in pc.value_counts(column).to_pylist()}
    return dict(sorted(counts.items()))
