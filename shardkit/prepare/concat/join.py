"""The tables of several datasets as those of one: places of shards are counted on, rows stay as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.records.manifest import ShardEntry
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column

_COUNTED = {"examples": "shard_index", "clusters": "shard_index", "lengths": "shard"}
"""Table -> its column of places in a list of shards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    datasets: tuple[Dataset, ...]
    """By id."""

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split for dataset in self.datasets for split in dataset.splits))

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        refs = [shard for dataset in self.datasets for shard in dataset.shards]
        return tuple(replace(shard.entry, dataset=shard.holder.id) for shard in refs)

    @property
    def sequences(self) -> tuple[ShardEntry, ...]:
        refs = [shard for dataset in self.datasets for shard in dataset.sequence_shards]
        return tuple(replace(shard.entry, dataset=shard.holder.id) for shard in refs)

    @property
    def locations(self) -> dict[str, Path]:
        """Where the inputs are, and whoever holds a shard of theirs."""
        refs = [shard for dataset in self.datasets for shard in (*dataset.shards, *dataset.sequence_shards)]
        return {dataset.id: dataset.path for dataset in (*(shard.holder for shard in refs), *self.datasets)}

    @property
    def num_rows(self) -> int:
        return sum(int(dataset.manifest.counts["kept"]) for dataset in self.datasets)

    def totals(self) -> dict[str, dict[str, dict[str, int]]]:
        """by_split and by_source: the sums of the inputs'."""
        sums: dict[str, dict[str, dict[str, int]]] = {"by_split": {}, "by_source": {}}
        for dataset in self.datasets:
            for dimension, rows in dataset.manifest.totals.items():
                for name, totals in rows.items():
                    row = sums[dimension].setdefault(name, {})
                    for unit, count in totals.items():
                        row[unit] = row.get(unit, 0) + count
        return {
            dimension: {name: dict(sorted(row.items())) for name, row in sorted(rows.items())}
            for dimension, rows in sums.items()
        }

    # ------------------------------------------------------------------ tables
    def tables(self) -> Mapping[str, Iterator[pa.Table]]:
        """Everything that later stages ask for.

        Raises:
            ConfigError: where a key stands in two splits.
        """
        tables = {"examples": self._counted_on("examples"), "assets": self._as_they_are("assets")}
        if self._some_have("clusters"):
            tables |= {"edges": self._as_they_are("edges"), "clusters": self._clusters()}
        if self._some_have("near"):
            tables["near"] = self._as_they_are("near")
        if self._some_have("derived"):
            tables["derived"] = self._as_they_are("derived")
        if self.datasets[0].has_table("lengths"):
            tables["lengths"] = self._counted_on("lengths")
        if all(dataset.has_table("ledger") for dataset in self.datasets):
            tables["ledger"] = iter([self._ledger()])
        if self._some_have("boilerplate"):
            tables["boilerplate"] = iter([self._boilerplate()])
        if all(dataset.has_table("groups") for dataset in self.datasets):
            tables["groups"] = self._as_they_are("groups")
        return tables

    def provenance(self) -> Iterator[pa.Table]:
        yield PROVENANCE.empty_table()
        for dataset in self.datasets:
            yield dataset.table("provenance").cast(PROVENANCE)

    def _some_have(self, name: str) -> bool:
        return any(dataset.has_table(name) for dataset in self.datasets)

    def _parts(self, name: str) -> Iterator[tuple[int, pa.Table]]:
        """(number of the dataset, its table) of those that have one."""
        for number, dataset in enumerate(self.datasets):
            if dataset.has_table(name):
                table = dataset.table(name)
                yield number, table.cast(TABLES[name]) if name in TABLES else table

    def _as_they_are(self, name: str) -> Iterator[pa.Table]:
        if name in TABLES:
            yield TABLES[name].empty_table()
        yield from (table for _, table in self._parts(name))

    def _counted_on(self, name: str) -> Iterator[pa.Table]:
        if name in TABLES:
            yield TABLES[name].empty_table()
        shards = [len(d.sequence_shards if name == "lengths" else d.shards) for d in self.datasets]
        first = list(accumulate(shards, initial=0))
        for number, table in self._parts(name):
            yield _moved(table, _COUNTED[name], first[number])

    def _clusters(self) -> Iterator[pa.Table]:
        """Under one numbering."""
        first = 0
        for table in self._counted_on("clusters"):
            yield _moved(table, "cluster", first)
            if table.num_rows:
                first += int(np.max(table["cluster"].to_numpy())) + 1

    def _ledger(self) -> pa.Table:
        """The rows of all ledgers, each key once; the older ones of each first."""
        table = pa.concat_tables(part for _, part in self._parts("ledger"))
        table = table.take(
            pc.sort_indices(table, [("order", "ascending"), ("kind", "ascending"), ("key", "ascending")])
        )
        keys = table.group_by(["kind", "key"], use_threads=False)
        found = keys.aggregate([("split", "first"), ("split", "count_distinct"), ("rows", "sum")])
        torn = found.filter(pc.greater(found["split_count_distinct"], 1))
        if torn.num_rows:
            key = torn["key"][0].as_py()
            raise ConfigError(
                f"{torn.num_rows} groups stand in different splits of the inputs; first, {key!r}",
                hint="concat the datasets before their split, and split them together with --like the older one",
            )
        columns = {
            "order": pa.array(np.arange(found.num_rows), pa.int64()),
            "key": found["key"],
            "kind": found["kind"],
            "split": found["split_first"],
            "rows": found["rows_sum"],
        }
        return pa.table(columns, schema=TABLES["ledger"])

    def _boilerplate(self) -> pa.Table:
        """Each value once, with what is known of it at least."""
        table = pa.concat_tables(part for _, part in self._parts("boilerplate"))
        found = table.group_by(["kind", "value"], use_threads=False).aggregate(
            [("groups", "max"), ("examples", "sum"), ("excerpt", "first")]
        )
        columns = {
            "kind": found["kind"],
            "value": found["value"],
            "groups": found["groups_max"],
            "examples": found["examples_sum"],
            "excerpt": found["excerpt_first"],
        }
        return pa.table(columns, schema=TABLES["boilerplate"])


def _moved(table: pa.Table, column: str, by: int) -> pa.Table:
    """The table with `by` added to a column of places."""
    return replace_column(table, column, pc.add(table[column], pa.scalar(by, pa.int32())))
