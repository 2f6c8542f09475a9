"""The texts of rows and nothing else of them: facts.py is for what needs more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import Slice, open_slice

BATCH_CHARACTERS = 1 << 22
"""What is worked on at a time: a shard may hold a quarter of a gigabyte of text."""


def texts_of(piece: Slice) -> Iterator[list[str]]:
    """The text segments of each row of a slice, joined; empty where there is none. Batch by batch, all of the rows.

    Args:
        piece: its rows ascend.

    Raises:
        IntegrityError: where the column does not hold together.
    """
    reader = open_slice(piece)
    first, last = int(piece.rows[0]), int(piece.rows[-1])
    chunks = reader.columns(("segments",), rows=range(first, last + 1))["segments"].chunks
    starts = np.cumsum([first, *map(len, chunks)])
    borders = np.searchsorted(piece.rows, starts)
    batch: list[str] = []
    size = 0
    for number in np.flatnonzero(np.diff(borders)).tolist():
        rows = piece.rows[borders[number] : borders[number + 1]] - starts[number]
        some = list(_texts(chunks[number], rows.tolist()))
        batch += some
        size += sum(map(len, some))
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
    del chunks
    reader.close()


def _texts(segments: pa.ListArray, rows: list[int]) -> Iterator[str]:
    try:
        # Offsets of a damaged column must not lead outside; its block is not compared with its digest.
        segments.validate(full=True)
    except pa.ArrowInvalid as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})", hint="run `shardkit verify` on the dataset"
        ) from error
    texts = segments.values.field("text").to_pylist()
    ends = segments.offsets.to_pylist()
    for row in rows:
        own = texts[ends[row] : ends[row + 1]]
        yield (own[0] or "") if len(own) == 1 else "".join(text for text in own if text)
