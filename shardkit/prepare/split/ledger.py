"""Which key went where: grows only, so that what was placed stays where it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys, leading, look_up
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
        return look_up(keys, self.keys, self.splits)

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
        of_group = pa.array(declared >= 0)
        named = pa.array(rows.names, pa.string()).take(pa.array(declared, mask=declared < 0))
        ids = rows.examples["example_id"].take(pa.array(first)).combine_chunks()
        columns = {
            "order": np.arange(len(first)) + self.table.num_rows,
            "key": pc.coalesce(named, ids),
            "kind": pc.if_else(of_group, GROUP, EXAMPLE),
            "split": pa.array(names, pa.string()).take(pa.array(split_of[first])),
            "rows": counts,
        }
        return pa.concat_tables([self.table, pa.table(columns, schema=TABLES["ledger"])])


def read_ledger(old: Dataset | None, names: tuple[str, ...]) -> Ledger:
    """The ledger of an older split.

    Raises:
        ConfigError: where it has a split that is not asked for now.
    """
    if old is None:
        return Ledger(table=TABLES["ledger"].empty_table(), keys=np.empty(0, np.uint64), splits=np.empty(0, np.int64))
    table = old.table("ledger").cast(TABLES["ledger"])
    of_split = table["split"].combine_chunks().dictionary_encode()
    place = {name: number for number, name in enumerate(names)}
    for name in sorted(of_split.dictionary.to_pylist()):
        if name not in place:
            raise ConfigError(
                f"the older split has a split {name!r}, which --ratios does not name",
                where=str(old.path),
                hint=f"give {name} a share in --ratios, or leave --ratios out to ask for the same ones",
            )
    splits = np.array([place[name] for name in of_split.dictionary.to_pylist()], np.int64)[of_split.indices.to_numpy()]
    keys = np.zeros(table.num_rows, np.uint64)
    group = pc.equal(table["kind"], GROUP)
    of_group = np.asarray(group.to_numpy(), np.bool_)
    keys[of_group] = [bits for batch in table["key"].filter(group).chunks for bits in group_keys(batch.to_pylist())]
    keys[~of_group] = example_keys(leading(table["key"].filter(pc.invert(group))))
    order = np.argsort(keys)
    return Ledger(table=table, keys=keys[order], splits=splits[order])
