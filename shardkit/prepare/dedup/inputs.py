"""The selected rows of several datasets under one numbering, and the slices of them that workers read.

rows 0 .. N-1    dataset by dataset (ascending id), each in the order of its tables/examples
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.facts import Facts, read_facts
from shardkit.prepare.named import check_named_once
from shardkit.records import Example
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from shardkit.store.shard import ShardReader
from shardkit.store.whole import open_whole

SLICE_ROWS = 8192
"""Small rows fill a shard with hundreds of thousands; one shard must still keep every worker busy."""

Positions = npt.NDArray[np.int64]
"""Numbers of rows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Slice:
    """Rows of one shard: what a worker takes at a time."""

    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    shard: int
    """Place in the dataset's list of shards."""
    rows: npt.NDArray[np.int32]
    positions: Positions
    """Number of each row among all."""
    by_manifest: bool = False
    """Take the shard as it lies there, and believe no table: for an audit, which compared the file itself."""
    remote: RemoteSettings | None = None
    """How the dataset is reached, where it lies behind a URL."""

    def only(self, indices: npt.NDArray[np.int64]) -> Slice:
        """Some rows of the slice, by their place in it."""
        return replace(self, rows=self.rows[indices], positions=self.positions[indices])


def open_slice(piece: Slice) -> ShardReader:
    """The reader of the slice's shard. Its size is checked, its blocks are not: that would read every image."""
    dataset = _dataset(piece.dataset, piece.dataset_id, piece.bases, piece.remote, not piece.by_manifest)
    shard = dataset.shards[piece.shard]
    return open_whole(shard, compare=False) if piece.by_manifest else dataset.reader(shard, verify="off")


def checked_slice(piece: Slice) -> Iterator[Example]:
    """The examples of a slice with their images, every block compared with its digest."""
    dataset = _dataset(piece.dataset, piece.dataset_id, piece.bases, piece.remote, True)
    reader = dataset.reader(dataset.shards[piece.shard])
    yield from map(reader.example, piece.rows.tolist())
    reader.close()


def facts_of(piece: Slice) -> Iterator[Facts]:
    """Facts of the rows of a slice, in their order."""
    reader = open_slice(piece)
    yield from read_facts(reader, piece.rows)
    reader.close()


@lru_cache(maxsize=8)
def _dataset(
    path: Path, dataset_id: str, bases: tuple[Path, ...], remote: RemoteSettings | None, check_id: bool
) -> Dataset:
    """Opened once a process; the id is part of the key, so that another dataset at the path is another entry."""
    dataset = Dataset.open(path, base=bases, check_id=check_id, remote=remote)
    assert dataset.id == dataset_id, "the input was replaced during the run"
    return dataset


def forget() -> None:
    """Close the datasets that this process keeps open: after an audit, because an id that is not checked is no key."""
    _dataset.cache_clear()


def slices(
    dataset: Dataset,
    bases: tuple[Path, ...],
    shards: npt.NDArray[np.int32],
    rows: npt.NDArray[np.int32],
    positions: Positions,
    *,
    by_manifest: bool = False,
) -> Iterator[Slice]:
    """Cut rows into slices of one shard each and at most SLICE_ROWS rows, by shard and row: as they lie on disk."""
    order = np.lexsort((rows, shards))
    starts = np.flatnonzero(np.diff(shards[order], prepend=-1))
    borders = [*starts.tolist(), len(order)]
    for begin, end in (
        (start, min(start + SLICE_ROWS, last))
        for first, last in pairwise(borders)
        for start in range(first, last, SLICE_ROWS)
    ):
        own = order[begin:end]
        yield Slice(
            dataset=Path(dataset.where),
            dataset_id=dataset.id,
            bases=bases,
            shard=int(shards[own[0]]),
            rows=rows[own],
            positions=positions[own],
            by_manifest=by_manifest,
            remote=dataset.remote,
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inputs:
    datasets: tuple[Dataset, ...]
    """Ascending by id, so that the order on the command line does not matter; references after all others."""
    num_datasets: int
    """How many of them are deduplicated; the rest are references, whose rows always stay."""
    bases: tuple[Path, ...]
    starts: tuple[int, ...]
    """Number of the first row of each dataset, and the number of all rows."""
    shards: npt.NDArray[np.int32]
    """[N] place of the row's shard in its dataset's list."""
    rows: npt.NDArray[np.int32]
    """[N] row in that shard."""
    splits: tuple[str, ...]
    by_manifest: bool = False
    """See Slice."""

    @property
    def num_rows(self) -> int:
        """N, with the rows of references."""
        return len(self.rows)

    @property
    def num_new(self) -> int:
        """Rows that are deduplicated: 0 .. num_new - 1."""
        return self.starts[self.num_datasets]

    def slices(self, positions: Positions | None = None) -> Iterator[Slice]:
        """Slices of all rows, or of ascending `positions`."""
        for number, dataset in enumerate(self.datasets):
            begin, end = self.starts[number], self.starts[number + 1]
            if positions is None:
                own = np.arange(begin, end)
            else:
                own = positions[np.searchsorted(positions, begin) : np.searchsorted(positions, end)]
            yield from slices(dataset, self.bases, self.shards[own], self.rows[own], own, by_manifest=self.by_manifest)

    def split_of(self) -> npt.NDArray[np.int32]:
        """[N] place of the row's split in `splits`; -1 for rows of references."""
        place = {split: number for number, split in enumerate(self.splits)}
        parts = [np.empty(0, np.int32)]
        for number, dataset in enumerate(self.datasets):
            if number >= self.num_datasets:
                parts.append(np.full(self.starts[number + 1] - self.starts[number], -1, np.int32))
                continue
            of_shard = np.array([place[shard.split] for shard in dataset.shards] or [0], np.int32)
            parts.append(of_shard[self.shards[self.starts[number] : self.starts[number + 1]]])
        return np.concatenate(parts)


def open_inputs(paths: Sequence[Path], *, references: Sequence[Path] = (), bases: Sequence[Path] = ()) -> Inputs:
    """Open datasets as one, then those that they are compared with.

    Raises:
        ConfigError: where one is named twice or holds sequences, or some are split and some are not.
    """
    new, old = (
        sorted((Dataset.open(path, base=bases) for path in group), key=lambda dataset: dataset.id)
        for group in (paths, references)
    )
    datasets = [*new, *old]
    for dataset in datasets:
        if dataset.sequence_shards:
            raise ConfigError(
                "the input holds sequences",
                where=str(dataset.path),
                hint="name the dataset that they were made from, then run `shardkit tokenize` again",
            )
    check_named_once(datasets)
    for one, other in pairwise(new):
        if set(one.splits) != set(other.splits):
            raise ConfigError(
                f"{one.path} has the splits {', '.join(one.splits)}, {other.path} has {', '.join(other.splits)}",
                hint="name datasets before their split; `shardkit split` comes after dedup",
            )
    starts, shards, rows = [0], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for dataset in datasets:
        table = dataset.table("examples", ["shard_index", "row"])
        shards.append(as_int32(table["shard_index"]))
        rows.append(as_int32(table["row"]))
        starts.append(starts[-1] + table.num_rows)
    return Inputs(
        datasets=tuple(datasets),
        num_datasets=len(new),
        bases=tuple(bases),
        starts=tuple(starts),
        shards=np.concatenate(shards),
        rows=np.concatenate(rows),
        splits=new[0].splits,
    )


def as_int32(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    return np.asarray(column.to_numpy(), np.int32)
