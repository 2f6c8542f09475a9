"""Random access to a table of a dataset: whole columns, and single rows, of which only their row group is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES


class TableRows:
    """A table whose file was compared with the manifest when this was made.

    Raises:
        IntegrityError: where the file is missing, damaged or not listed.
    """

    def __init__(self, dataset: Dataset, name: str) -> None:
        self._file = pq.ParquetFile(dataset.table_file(name), memory_map=True)
        stored = self._file.schema_arrow
        self._schema = PROVENANCE if name == "provenance" else TABLES.get(name, stored)
        self._stored = set(stored.names)
        groups = [self._file.metadata.row_group(number).num_rows for number in range(self._file.num_row_groups)]
        self._starts = np.cumsum([0, *groups])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def columns(self, *names: str) -> pa.Table:
        """These columns, whole; one that a later version added is all null."""
        return self._filled(self._file.read([name for name in names if name in self._stored]), names)

    def take(self, positions: Sequence[int], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows at `positions`, in that order; only the columns `names` where given."""
        if not positions:
            return []
        wanted = list(self._schema.names if names is None else names)
        at = np.asarray(positions, np.int64)
        group = np.searchsorted(self._starts, at, side="right") - 1
        rows: dict[int, dict[str, Any]] = {}
        for number in np.unique(group).tolist():
            table = self._file.read_row_group(number, [name for name in wanted if name in self._stored])
            inside = at[group == number]
            taken = self._filled(table.take(pa.array(inside - self._starts[number])), wanted)
            rows.update(zip(inside.tolist(), taken.to_pylist(), strict=True))
        return [rows[position] for position in at.tolist()]

    def _filled(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        for name in names:
            if name not in self._stored:
                field = self._schema.field(name)
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        return table.select(list(names))
