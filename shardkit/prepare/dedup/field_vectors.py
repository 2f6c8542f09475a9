"""Vectors that rows carry in a field of their metadata, written as a file that `embeddings.py` reads.

metadata {"clip": [0.1, ...]}  ->  example_id, embedding
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from shardkit.engine import map_ordered
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.dedup.embeddings import EXAMPLE
from shardkit.prepare.dedup.inputs import Inputs, Slice
from shardkit.prepare.ingest.group import field_of
from shardkit.prepare.report.measure import columns_of


def write_vectors(inputs: Inputs, field: str, path: Path, *, workers: int) -> Path:
    """Write the vectors of all rows that have one; a field that is no list of numbers is none.

    Raises:
        ConfigError: where no row has the field.
        SourceError: where vectors are of several widths.
    """
    width: int | None = None
    with pa.OSFile(str(path), "wb") as file:
        writer: pa.ipc.RecordBatchFileWriter | None = None
        for ids, vectors in map_ordered(partial(_read, field), inputs.slices(), workers=workers):
            for example_id, vector in zip(ids, vectors, strict=True):
                width = width or len(vector)
                if len(vector) != width:
                    raise SourceError(
                        f"the vectors in {field!r} have {width} numbers, that of {example_id} has {len(vector)}",
                        hint="give vectors of one model in one field",
                    )
            if width is None or not len(ids):
                continue
            flat = np.array(vectors, np.float64).reshape(-1)
            columns = [pa.array(ids, pa.string()), pa.FixedSizeListArray.from_arrays(pa.array(flat), width)]
            batch = pa.RecordBatch.from_arrays(columns, names=[EXAMPLE, "embedding"])
            writer = writer or pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            raise ConfigError(
                f"no example has a vector in a metadata field {field!r}",
                hint="name another with --embedding-field; `shardkit head` shows the fields; it holds a list of numbers",
            )
        writer.close()
    return path


def _read(field: str, piece: Slice) -> tuple[list[str], list[list[float]]]:
    """Ids and vectors of the rows of a slice that have one; by a worker."""
    table = columns_of(piece, ("example_id", "metadata"))
    ids, vectors = [], []
    for example_id, metadata in zip(table["example_id"].to_pylist(), table["metadata"].to_pylist(), strict=True):
        value = field_of(orjson.loads(metadata), field)
        if isinstance(value, list) and value and all(type(one) in {int, float} for one in value):
            ids.append(example_id)
            vectors.append([float(one) for one in value])
    return ids, vectors
