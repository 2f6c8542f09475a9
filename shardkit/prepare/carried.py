"""Tables of the inputs that later stages ask for: a view carries them on for the rows that it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from shardkit.prepare.selection import Selection
from shardkit.store.schema import TABLES
from shardkit.store.tables import replace_column


def carried(selection: Selection) -> Mapping[str, Iterator[pa.Table]]:
    """What dedup joined, and of one input what its split decided."""
    tables: dict[str, Iterator[pa.Table]] = {}
    datasets = selection.datasets
    if any(dataset.has_table("clusters") for dataset in datasets):
        tables |= {"edges": _edges(selection), "clusters": _clusters(selection)}
    if len(datasets) == 1:
        tables |= {name: _whole(selection, name) for name in ("ledger", "boilerplate") if datasets[0].has_table(name)}
        if datasets[0].has_table("groups"):
            tables["groups"] = _groups(selection)
    return tables


def _edges(selection: Selection) -> Iterator[pa.Table]:
    yield TABLES["edges"].empty_table()
    for dataset in selection.datasets:
        if dataset.has_table("edges"):
            yield dataset.table("edges").cast(TABLES["edges"])


def _clusters(selection: Selection) -> Iterator[pa.Table]:
    """Clusters of all inputs under one numbering, with the places of their rows among the output's shards."""
    schema = TABLES["clusters"]
    yield schema.empty_table()
    next_cluster = 0
    for number, dataset in enumerate(selection.datasets):
        if not dataset.has_table("clusters"):
            continue
        table = dataset.table("clusters").cast(schema)
        for name, first in (("cluster", next_cluster), ("shard_index", selection.first_shard[number])):
            moved = pa.array(np.asarray(table[name].to_numpy(), np.int32) + np.int32(first))
            table = replace_column(table, name, moved)
        if table.num_rows:
            next_cluster = int(np.max(table["cluster"].to_numpy())) + 1
        yield table


def _whole(selection: Selection, name: str) -> Iterator[pa.Table]:
    yield selection.datasets[0].table(name)


def _groups(selection: Selection) -> Iterator[pa.Table]:
    yield selection.datasets[0].table("groups").filter(pa.array(selection.kept))
