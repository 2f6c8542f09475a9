"""The example ids that the content of rows gives: texts, roles, relations and metadata are those that were committed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shardkit.records import example_id
from shardkit.store.rows import from_row
from shardkit.store.schema import EXAMPLES
from shardkit.store.shard import ShardReader

_ROWS = 256


def content_ids(reader: ShardReader, rows: npt.NDArray[np.int32]) -> Iterator[str]:
    """The id of each row, from what enters it; no image is read.

    Args:
        rows: ascending.
    """
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        first = int(some[0])
        table = reader.columns(EXAMPLES.names, rows=range(first, int(some[-1]) + 1))
        for row in table.take(some - first).to_pylist():
            for image in row["images"]:
                image["bytes"] = b""  # stored bytes do not enter the id
            yield example_id(from_row(row))
