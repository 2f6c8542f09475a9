"""The texts of datasets, segment by segment: turns, captions, pages, paragraphs. Images are not touched.

datasets by id -> rows of the chosen split -> slices of a shard -> a list of texts for each of its row blocks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.digest import mix64
from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import Slice, as_int32, open_slice, slices
from shardkit.prepare.named import check_split, open_by_id
from shardkit.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """The rows of one dataset that are read."""

    dataset: Dataset
    bases: tuple[Path, ...]
    shards: npt.NDArray[np.int32]
    """[N] place of the row's shard in the dataset's list."""
    rows: npt.NDArray[np.int32]
    """[N] row in that shard."""
    ids: pa.ChunkedArray
    """[N] example ids."""

    def slices(self, keep: npt.NDArray[np.bool_] | None = None) -> Iterator[Slice]:
        """Slices of all rows, or of those that `keep` marks."""
        own = np.arange(len(self.rows)) if keep is None else np.flatnonzero(keep)
        return slices(self.dataset, self.bases, self.shards[own], self.rows[own], own)

    def drawn(self, share: float) -> npt.NDArray[np.bool_]:
        """[N] which rows a draw of this share keeps: a function of each row's id alone."""
        limit = int(share * 2**64)
        return np.array([mix64(one, "tokenizer") < limit for one in self.ids.to_pylist()], np.bool_)


def open_sources(
    paths: Sequence[Path], *, split: str | None, bases: Sequence[Path], train_only: bool = False
) -> tuple[Source, ...]:
    """Open datasets, by id.

    Args:
        split: the one to read; None is all of them.
        train_only: None is `train` where a dataset is split.

    Raises:
        ConfigError: where one is named twice, or lacks the split.
    """
    # Worker processes may stand in another folder, hence absolute paths.
    absolute = tuple(base.absolute() for base in bases)
    datasets = open_by_id((path.absolute() for path in paths), base=absolute)
    return tuple(_source(dataset, split, absolute, train_only) for dataset in datasets)


def _source(dataset: Dataset, split: str | None, bases: tuple[Path, ...], train_only: bool) -> Source:
    if split is None and train_only and dataset.is_split:
        split = "train"
    if split is not None:
        check_split(dataset, split)
    table = dataset.table("examples", ["shard_index", "row", "example_id"])
    chosen = np.array([split is None or shard.split == split for shard in dataset.shards] or [False], np.bool_)
    shards = as_int32(table["shard_index"])
    own = chosen[shards]
    return Source(
        dataset=dataset,
        bases=bases,
        shards=shards[own],
        rows=as_int32(table["row"])[own],
        ids=table["example_id"].filter(pa.array(own)),
    )


def texts_of(piece: Slice) -> Iterator[list[str]]:
    """The texts of the rows of a slice, a list for each row block; empty ones are left out.

    Raises:
        IntegrityError: where the column does not hold together.
    """
    for texts in _columns(piece):
        found = texts.filter(pc.greater(pc.binary_length(texts), 0)).to_pylist()
        if found:
            yield found


def num_bytes(piece: Slice) -> int:
    """Bytes of the texts of a slice, from their offsets alone."""
    return sum(pc.sum(pc.binary_length(texts)).as_py() or 0 for texts in _columns(piece))


def _columns(piece: Slice) -> Iterator[pa.Array]:
    """The column of texts, block by block, of the rows of the slice."""
    reader = open_slice(piece)
    first, last = int(piece.rows[0]), int(piece.rows[-1])
    chunks = reader.columns(("segments",), rows=range(first, last + 1))["segments"].chunks
    starts = np.cumsum([first, *map(len, chunks)])
    borders = np.searchsorted(piece.rows, starts)
    for chunk, start, (begin, end) in zip(chunks, starts, pairwise(borders), strict=False):
        if begin < end:
            yield _checked(chunk).take(pa.array(piece.rows[begin:end] - start)).flatten().field("text")
    del chunks
    reader.close()


def _checked(segments: pa.ListArray) -> pa.ListArray:
    # Offsets of a damaged column must not lead outside; its block is not compared with its digest.
    try:
        segments.validate(full=True)
    except pa.ArrowInvalid as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})", hint="run `shardkit verify` on the dataset"
        ) from error
    return segments
