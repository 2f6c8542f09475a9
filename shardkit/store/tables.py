"""A table of a dataset as a whole: where it lies, how it is read, how its rows are digested.

`table_rows` reads single rows of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.digest import canonical_json
from shardkit.store.schema import PROVENANCE, TABLES

EXCLUSIONS = "exclusions.jsonl.zst"
"""The excluded rows of a dataset: lines of JSON beside its tables."""
_LINES = 8192
"""Rows of a table that are Python values at a time."""


def table_path(name: str) -> str:
    """Path of a table in its dataset."""
    return "provenance/provenance.parquet" if name == "provenance" else f"tables/{name}.parquet"


def known_schema(name: str, stored: pa.Schema) -> pa.Schema:
    """The columns that this version knows of a table; those that are stored, where it is one of a stage's own."""
    return PROVENANCE if name == "provenance" else TABLES.get(name, stored)


def read_table(file: Path, name: str, columns: Sequence[str] | None = None, *, as_stored: bool = False) -> pa.Table:
    """Read table `name` from its file.

    Args:
        columns: those to read; None for all.
        as_stored: without the columns, all null, that later versions added.
    """
    # Not pq.read_table: it imports pyarrow.dataset, and that imports pandas where there is one, for half a second.
    with pq.ParquetFile(file) as opened:
        schema = opened.schema_arrow
        known = known_schema(name, schema)
        wanted = list(known.names if columns is None else columns)
        absent = set() if as_stored else set(wanted) - set(schema.names)
        table = opened.read(columns=None if columns is None else [c for c in wanted if c not in absent])
    return with_columns(table, wanted, known) if absent else table


def with_columns(table: pa.Table, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """These columns, in this order; those that `table` does not have are null, of the type in `schema`."""
    for name in names:
        if name not in table.schema.names:
            field = schema.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(list(names))


def replace_column(table: pa.Table | pa.RecordBatch, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The same columns, with `column` in the place of the one called `name`, whose type it has."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), column)


def row_lines(table: pa.Table) -> Iterator[bytes]:
    """Each row of a table as canonical JSON: the list of its values, in column order; bytes in hex."""
    for start in range(0, table.num_rows, _LINES):
        columns = [
            [None if value is None else value.hex() for value in column.to_pylist()]
            if pa.types.is_binary(column.type)
            else column.to_pylist()
            for column in table.slice(start, _LINES).columns
        ]
        for row in zip(*columns, strict=True):
            yield canonical_json(row)
