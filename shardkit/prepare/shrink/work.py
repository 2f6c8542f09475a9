"""What a worker does with some rows of a shard: read them with all checks, make their pictures smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.errors import SourceError
from shardkit.media.reasons import BadMedia
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.shrink.derive import Derived, derive
from shardkit.store.columns import Rows, to_rows
from shardkit.store.dataset import Dataset
from shardkit.store.shard import ShardReader, ShardRef

PLACES = ("input", "position", "parent_id", "has_email", "has_phone")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every worker knows."""

    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    max_side: int
    quality: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Chunk:
    """Selected rows of one block of a shard."""

    unit: int
    shard: int
    """Place in the dataset's list of shards."""
    rows: npt.NDArray[np.int32]
    places: pa.Table
    """[n] PLACES of tables/examples."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Done:
    unit: int
    rows: Rows
    assets: tuple[dict[str, Any], ...]
    """Rows of tables/assets of the images that changed."""
    derived: tuple[dict[str, Any], ...]
    """Rows of tables/derived."""
    counts: Counter[str] = field(default_factory=Counter)
    """images, shrunk, bytes_before, bytes_after; and `<media type> to <media type>` of those that changed."""


def chunks(unit: int, shard: ShardRef, rows: npt.NDArray[np.int32], places: pa.Table) -> Iterator[Chunk]:
    """The rows cut at the blocks of their shard, which is a few megabytes each.

    Args:
        rows: [n] in the order of writing.
        places: [n] PLACES.
    """
    table = shard.holder.table("rows", ["shard", "first_row", "num_rows"])
    own = np.asarray(table["shard"].to_numpy(zero_copy_only=False) == shard.name, np.bool_)
    starts = np.unique(as_int32(table["first_row"])[own & (as_int32(table["num_rows"]) > 0)])
    blocks = np.searchsorted(starts, rows, side="right")
    borders = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(rows)]
    for begin, end in pairwise(borders):
        if end > begin:
            # A slice would be sent to the worker with all that it is a slice of.
            part = places.take(pa.array(np.arange(begin, end)))
            yield Chunk(unit=unit, shard=shard.index, rows=rows[begin:end], places=part)


def work(job: Job, chunk: Chunk) -> Done:
    """Make the pictures of some rows smaller; run by a worker.

    Raises:
        IntegrityError: where the shard is damaged.
        SourceError: where a picture does not decode.
    """
    reader = _reader(job.dataset, job.dataset_id, job.bases, chunk.shard)
    examples, places, derived = [], [], []
    assets: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for row, place in zip(chunk.rows.tolist(), chunk.places.to_pylist(), strict=True):
        before = reader.example(row)
        try:
            after, made = derive(before, max_side=job.max_side, quality=job.quality)
        except BadMedia as bad:
            raise SourceError(
                f"a picture cannot be decoded: {bad.detail} ({bad.reason})",
                where=f"{_dataset(job.dataset, job.dataset_id, job.bases).shards[chunk.shard].name}:{row}",
                hint="HEIC needs `pip install shardkit[image]`; for others run `shardkit verify --deep`",
            ) from bad
        if made:
            place = {**place, "parent_id": before.example_id}
        counts["images"] += len(before.images)
        counts["bytes_before"] += sum(len(image.data) for image in before.images)
        counts["bytes_after"] += sum(len(image.data) for image in after.images)
        _count(made, counts)
        examples.append(after)
        places.append(place)
        derived += [one.row(after.example_id) for one in made]
        assets += [one.asset() for one in made]
    return Done(
        unit=chunk.unit, rows=to_rows(examples, places), assets=tuple(assets), derived=tuple(derived), counts=counts
    )


def _count(made: Sequence[Derived], counts: Counter[str]) -> None:
    counts["shrunk"] += len(made)
    for one in made:
        counts[f"{one.before.media_type} to {one.after.media_type}"] += 1


@lru_cache(maxsize=4)
def _reader(path: Path, dataset_id: str, bases: tuple[Path, ...], shard: int) -> ShardReader:
    """Of the shards that were used last: each block is checked once while its shard stays open."""
    dataset = _dataset(path, dataset_id, bases)
    return dataset.reader(dataset.shards[shard])


@lru_cache(maxsize=1)
def _dataset(path: Path, dataset_id: str, bases: tuple[Path, ...]) -> Dataset:
    dataset = Dataset.open(path, base=bases)
    assert dataset.id == dataset_id, "the input was replaced during the run"
    return dataset


def forget() -> None:
    """Close what this process keeps open between chunks."""
    _reader.cache_clear()
    _dataset.cache_clear()
