"""Random access to a table of a dataset: whole columns, and single rows, of which only their row group is read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.store.dataset import Dataset
from shardkit.store.tables import known_schema, with_columns

_KEPT = 512 << 20
"""Bytes of row groups that stay in memory, by table."""
_REPEATING = frozenset(
    {
        "shard", "input", "group", "source", "revision", "retrieved_at", "licence", "decoder", "preprocessing",
        "relation", "annotator", "derived_recipe", "tokenizer", "processor", "level", "outcome", "benchmark",
    }
)  # fmt: skip
"""Columns of few values: kept as codes, each value once a row group."""


class TableRows:
    """A table whose file was compared with the manifest when this was made.

    Raises:
        IntegrityError: where the file is missing, damaged or not listed.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        path = dataset.table_file(name)
        self._file = pq.ParquetFile(path, memory_map=True)
        stored = self._file.schema_arrow
        self._schema = known_schema(name, stored)
        self._stored = set(stored.names)
        codes = [name for name in stored.names if name in _REPEATING]
        self._rows = pq.ParquetFile(path, memory_map=True, metadata=self._file.metadata, read_dictionary=codes)
        groups = [self._file.metadata.row_group(number).num_rows for number in range(self._file.num_row_groups)]
        self._starts = np.cumsum([0, *groups])
        self._groups: OrderedDict[int, pa.Table] = OrderedDict()
        self._num_bytes = 0

    def __len__(self) -> int:
        return int(self._starts[-1])

    def columns(self, *names: str) -> pa.Table:
        """These columns, whole; one that a later version added is all null."""
        stored = self._file.read([name for name in names if name in self._stored])
        return with_columns(stored, names, self._schema)

    def take(self, positions: Sequence[int], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order; only the columns `names` where given."""
        if not positions:
            return []
        wanted = list(self._schema.names if names is None else names)
        at = np.asarray(positions, np.int64)
        group = np.searchsorted(self._starts, at, side="right") - 1
        rows: dict[int, dict[str, Any]] = {}
        for number in sorted(set(group.tolist())):
            inside = at[group == number]
            table = with_columns(self._group(number), wanted, self._schema)
            table = table.take(pa.array(inside - self._starts[number]))
            rows.update(zip(inside.tolist(), table.to_pylist(), strict=True))
        return [rows[position] for position in at.tolist()]

    def _group(self, number: int) -> pa.Table:
        table = self._groups.pop(number, None)
        if table is None:
            # One thread: a group is small, and a pool costs more than it saves.
            table = self._rows.read_row_group(number, use_threads=False)
            self._num_bytes += table.nbytes
        self._groups[number] = table
        while self._num_bytes > _KEPT and len(self._groups) > 1:
            self._num_bytes -= self._groups.popitem(last=False)[1].nbytes
        return table
