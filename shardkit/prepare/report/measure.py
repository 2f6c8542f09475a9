"""Sizes of the rows of a slice, from columns alone: no image is opened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import Slice, open_slice

Numbers = npt.NDArray[np.int64]


def columns_of(piece: Slice, names: Sequence[str]) -> pa.Table:
    """Columns of the rows of a slice, in one chunk.

    Raises:
        IntegrityError: where they do not hold together.
    """
    reader = open_slice(piece)
    try:
        if not len(piece.rows):
            return reader.columns(names, rows=range(0)).combine_chunks()
        first, last = int(piece.rows.min()), int(piece.rows.max())
        table = reader.columns(names, rows=range(first, last + 1)).take(pa.array(piece.rows - first))
        table.validate(full=True)  # these blocks are not compared with their digests: that would read every image
        return table.combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})",
            where=str(piece.dataset),
            hint="run `shardkit verify` on the dataset",
        ) from error
    finally:
        reader.close()


def payloads(piece: Slice) -> Numbers:
    """[n] bytes of images, texts, metadata and ids of each row, as --shard-size counts; run by a worker."""
    return row_bytes(columns_of(piece, ("example_id", "segments", "images", "metadata")))


def row_bytes(table: pa.Table) -> Numbers:
    """[n] payload of each row of a table with example_id, segments, images and metadata."""
    segments, images = list_column(table["segments"]), list_column(table["images"])
    total = per_row(segments, pc.binary_length(segments.values.field("text")))
    total += per_row(images, images.values.field("size"))
    total += per_row(images, pc.binary_length(images.values.field("asset_id")))
    for name in ("example_id", "metadata"):
        total += np.asarray(pc.binary_length(table[name]).to_numpy(), np.int64)
    return total


def list_column(column: pa.ChunkedArray) -> pa.ListArray:
    """A column of one chunk as an array."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def ints(values: pa.Array) -> Numbers:
    """Numbers, 0 for null."""
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.int64)


def per_row(lists: pa.ListArray, values: pa.Array) -> Numbers:
    """[n] the sum of each row's values."""
    sums = np.append(0, np.cumsum(ints(values)))
    ends = lists.offsets.to_numpy()
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]], np.int64)
