"""Which key went where: grows only, so that what was placed stays where it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardkit.errors import ConfigError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.split.rows import Rows, example_keys, group_keys
from shardkit.store.dataset import Dataset
from shardkit.store.schema import TABLES

GROUP, EXAMPLE = "group", "example"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Ledger:
    table: pa.Table
    """tables/ledger of the older split; empty without one."""
    keys: Keys
    """[L] 64 bits of each key, ascending."""
    splits: Indices
    """[L] place of its split."""

    def placed(self, keys: Keys) -> Indices:
        """Place of the split of each key; -1 where it was never placed."""
        if len(self.keys) == 0:
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.splits[at], -1)

    def grown(self, rows: Rows, names: tuple[str, ...], split_of: Indices) -> pa.Table:
        """The ledger with a row for each key that was never placed, in the order of their 64 bits.

        Args:
            names: of the splits.
            split_of: [num_own] place of the row's split; -1 where it has none, and no row in the ledger.
        """
        own = slice(0, rows.num_own)
        keys, first, counts = np.unique(rows.keys[own], return_index=True, return_counts=True)
        new = (self.placed(keys) < 0) & (split_of[first] >= 0)
        keys, first, counts = keys[new], first[new], counts[new]
        declared = rows.declared[own][first]
        ids = rows.examples["example_id"].take(pa.array(first)).to_pylist()
        columns = {
            "order": np.arange(len(first)) + self.table.num_rows,
            "key": [rows.names[d] if d >= 0 else example for d, example in zip(declared.tolist(), ids, strict=True)],
            "kind": [GROUP if d >= 0 else EXAMPLE for d in declared],
            "split": [names[s] for s in split_of[first]],
            "rows": counts,
        }
        return pa.concat_tables([self.table, pa.table(columns, schema=TABLES["ledger"])])


def read_ledger(old: Dataset | None, names: tuple[str, ...]) -> Ledger:
    """The ledger of an older split.

    Raises:
        ConfigError: where it is no split, or has a split that is not asked for now.
    """
    if old is None:
        return Ledger(table=TABLES["ledger"].empty_table(), keys=np.empty(0, np.uint64), splits=np.empty(0, np.int64))
    if not old.has_table("ledger"):
        raise ConfigError(
            f"--like names a dataset made by {old.stage}, which has no ledger",
            where=str(old.path),
            hint="name the output of `shardkit split`",
        )
    table = old.table("ledger").cast(TABLES["ledger"])
    place = {name: number for number, name in enumerate(names)}
    splits = table["split"].to_pylist()
    for name in sorted(set(splits)):
        if name not in place:
            raise ConfigError(
                f"the older split has a split {name!r}, which --ratios does not name",
                where=str(old.path),
                hint=f"give {name} a share in --ratios, or leave --ratios out to ask for the same ones",
            )
    keys = np.zeros(table.num_rows, np.uint64)
    of_group = np.array([kind == GROUP for kind in table["kind"].to_pylist()], np.bool_)
    keys[of_group] = group_keys(table["key"].filter(pa.array(of_group)).to_pylist())
    keys[~of_group] = example_keys(leading(table["key"].filter(pa.array(~of_group))))
    order = np.argsort(keys)
    return Ledger(table=table, keys=keys[order], splits=np.array([place[s] for s in splits], np.int64)[order])
