"""Ids of one dataset's tables as 64-bit columns, read when first asked for.

A million ids are 8 MB, and a scan takes a millisecond; of the tables themselves only the row groups of hits are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, leading, place_keys
from shardkit.prepare.lineage.numbers import Numbers
from shardkit.store.dataset import Dataset
from shardkit.store.table_rows import TableRows

LINKS = {
    "edges": ("kept_id", "removed_id"),
    "near": ("example_id", "other_id"),
    "evidence": ("example_id",),
    "lines": ("example_id", "parent_id"),
    "moved": ("example_id", "parent_id", "from_id"),
}
"""Table -> its columns of ids; a row says what an example has to do with another one, or with a benchmark, or what changed
in it."""

Place = tuple[int, int]
"""(shard, row): place in the manifest's list of shards, and row there."""


class Index:
    """Look-ups in the tables of one dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._links: dict[str, tuple[TableRows, list[Numbers]]] = {}

    # ------------------------------------------------------------------ tables
    @cached_property
    def examples(self) -> TableRows:
        return TableRows(self.dataset, "examples")

    @cached_property
    def provenance(self) -> TableRows:
        return TableRows(self.dataset, "provenance")

    @cached_property
    def origins(self) -> pa.Table:
        """[N] input and position of each example, as Arrow columns."""
        return self.examples.columns("input", "position")

    @cached_property
    def _ids(self) -> Numbers:
        return Numbers(leading(self.examples.columns("example_id")["example_id"]))

    @cached_property
    def _parents(self) -> Numbers | None:
        """None where no row was made from another."""
        column = self.examples.columns("parent_id")["parent_id"]
        return None if column.null_count == len(column) else Numbers(leading(column))

    @cached_property
    def _packed(self) -> Keys:
        table = self.examples.columns("shard_index", "row")
        return place_keys(as_int32(table["shard_index"]), as_int32(table["row"]))

    @cached_property
    def _places(self) -> Numbers:
        return Numbers(self._packed)

    @cached_property
    def _shown(self) -> Numbers:
        """[M] the asset of each row of provenance."""
        return Numbers(leading(self.provenance.columns("asset_id")["asset_id"]))

    @cached_property
    def _sequences(self) -> tuple[Numbers, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Of each sequence: the first 64 bits of its id, its shard, its row."""
        if not self.dataset.has_table("lengths"):
            return Numbers(np.empty(0, np.uint64)), np.empty(0, np.int32), np.empty(0, np.int32)
        table = TableRows(self.dataset, "lengths").columns("key", "shard", "row")
        keys = np.asarray(table["key"].to_numpy(), np.uint64)
        return Numbers(keys), as_int32(table["shard"]), as_int32(table["row"])

    # ------------------------------------------------------------------ by id
    def examples_of(self, digits: str) -> list[int]:
        """Positions of the examples whose id begins with these hex digits."""
        return _exact(self.examples, "example_id", _beginning(self._ids, digits), digits)

    def children_of(self, example_id: str) -> list[int]:
        """Positions of the examples that were made from this one."""
        if self._parents is None:
            return []
        return _exact(self.examples, "parent_id", _beginning(self._parents, example_id), example_id)

    def provenance_of_asset(self, digits: str) -> list[int]:
        """Positions of the rows of provenance of the assets whose id begins with these hex digits."""
        return _exact(self.provenance, "asset_id", _beginning(self._shown, digits), digits)

    def origins_of(self, assets: Sequence[str]) -> list[list[dict[str, Any]]]:
        """For each of these assets its rows of provenance."""
        found = self._shown.equal([_number(one) for one in assets])
        every = sorted({at for rows in found for at in rows})
        rows = dict(zip(every, self.provenance.take(every), strict=True))
        return [
            [rows[at] for at in positions if rows[at]["asset_id"] == asset]
            for asset, positions in zip(assets, found, strict=True)
        ]

    def sequences_of(self, digits: str) -> list[Place]:
        """Places of the sequences of whose id the first 16 digits begin with these, or are the first of these."""
        keys, shards, rows = self._sequences
        return [(int(shards[at]), int(rows[at])) for at in _beginning(keys, digits)]

    def links_of(self, example_id: str) -> list[dict[str, Any]]:
        """Rows of the tables of LINKS that name an example, each with the name of its `table`."""
        found = []
        for name, columns in LINKS.items():
            if not self.dataset.has_table(name):
                continue
            if name not in self._links:
                rows = TableRows(self.dataset, name)
                self._links[name] = rows, [Numbers(leading(column)) for column in rows.columns(*columns).columns]
            rows, keys = self._links[name]
            hits = sorted({at for column in keys for at in _beginning(column, example_id)})
            named = [row for row in rows.take(hits) if example_id in [row[column] for column in columns]]
            found += [{"table": name, **row} for row in named]
        return found

    def example_ids(self, positions: Sequence[int]) -> list[str]:
        return [row["example_id"] for row in self.examples.take(positions, ["example_id"])]

    def asset_ids(self, positions: Sequence[int]) -> list[str]:
        return [row["asset_id"] for row in self.provenance.take(positions, ["asset_id"])]

    def has_examples(self, ids: Iterable[str]) -> set[str]:
        """Which of these example ids are here."""
        wanted = sorted(set(ids))
        found = self._ids.equal([_number(one) for one in wanted])
        return {one for one, rows in zip(wanted, found, strict=True) if rows}

    # ------------------------------------------------------------------ by place
    def examples_at(self, name: str, position: str) -> list[int]:
        """Positions of the examples that came from a place of the raw input."""
        table = self.origins
        there = pc.and_(pc.equal(table["input"], name), pc.equal(table["position"], position))
        found: list[int] = np.flatnonzero(there.to_numpy()).tolist()
        return found

    def places_of(self, positions: Sequence[int]) -> list[Place]:
        """Where the examples at these positions lie."""
        packed = self._packed[np.asarray(positions, np.int64)].tolist()
        return [(place >> 32, place & 0xFFFFFFFF) for place in packed]

    def at_places(self, places: Sequence[Place]) -> list[int]:
        """Positions of the examples at these places.

        Raises:
            IndexError: where a place is not selected.
        """
        return [rows[0] for rows in self._places.equal([shard << 32 | row for shard, row in places])]


def _exact(table: TableRows, column: str, positions: list[int], digits: str) -> list[int]:
    """Of rows with the same first 64 bits those that agree in all digits."""
    rows = table.take(positions, [column])
    return [at for at, row in zip(positions, rows, strict=True) if (row[column] or "").startswith(digits)]


def _beginning(keys: Numbers, digits: str) -> list[int]:
    """Rows of the keys that begin with these hex digits, of which the first 16 count."""
    head = digits[:16]
    return keys.between(int(head.ljust(16, "0"), 16), int(head.ljust(16, "f"), 16))


def _number(one: str) -> int:
    return int(one[:16], 16)
