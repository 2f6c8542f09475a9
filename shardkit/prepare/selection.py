"""A view that selects rows of its inputs: their shards by reference, and the tables of the rows that stay.

What dedup and decontaminate write of the rows that they keep as they are is the same. Rows that a stage changes lie in
shards of its own, which come after those of the inputs; the tables name them by their new ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.dedup.inputs import Inputs, Positions
from shardkit.prepare.dedup.keys import Keys, asset_keys, hex_id, leading
from shardkit.records.manifest import ShardEntry
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column


class Counted(Protocol):
    """What a stage knows of all N rows of its inputs once it has read them."""

    @property
    def sources(self) -> npt.NDArray[np.int32]:
        """[N] index into `names`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Source names, ascending."""

    @property
    def images(self) -> npt.NDArray[np.int32]:
        """[N] number of images."""

    @property
    def pixels(self) -> npt.NDArray[np.int64]:
        """[N] their pixels."""

    @property
    def bytes(self) -> npt.NDArray[np.int64]:
        """[N] payload bytes."""

    @property
    def image_rows(self) -> Positions:
        """[M] the row of each image."""

    @property
    def image_keys(self) -> Keys:
        """[M] its asset key."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewritten:
    """C kept rows that the stage changed and wrote itself."""

    positions: Positions
    """[C] ascending"""
    ids: Keys
    """[C, 2] their new ids."""
    shards: npt.NDArray[np.int32]
    """[C] place of the row among the output's own shards."""
    rows: npt.NDArray[np.int32]
    """[C] row in that shard."""
    recipe: str
    """What derived them, for provenance."""

    @classmethod
    def none(cls) -> Rewritten:
        places = np.empty(0, np.int32)
        ids = np.empty((0, 2), np.uint64)
        return cls(positions=np.empty(0, np.int64), ids=ids, shards=places, rows=places, recipe="")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Selection:
    inputs: Inputs
    counted: Counted
    kept: npt.NDArray[np.bool_]
    """[N] of all rows; those of references are not kept, they are not here."""
    rewritten: Rewritten = field(default_factory=Rewritten.none)
    """Kept rows that are not taken from the inputs as they are."""

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The inputs without references."""
        return self.inputs.datasets[: self.inputs.num_datasets]

    # ------------------------------------------------------------------ shards
    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """All shards of the inputs, also those without a kept row: a split looks at removed rows."""
        refs = [shard for dataset in self.datasets for shard in dataset.shards]
        return tuple(replace(shard.entry, dataset=shard.holder.id) for shard in refs)

    @property
    def locations(self) -> dict[str, Path]:
        """Where the inputs are, and the datasets that hold their shards."""
        holders = {s.holder.id: s.holder.path for dataset in self.datasets for s in dataset.shards}
        return {**{dataset.id: dataset.path for dataset in self.datasets}, **holders}

    @property
    def first_shard(self) -> list[int]:
        """Of each dataset: the place of its first shard in the output's list."""
        sizes = [len(dataset.shards) for dataset in self.datasets]
        return [sum(sizes[:number]) for number in range(len(sizes))]

    def own(self, number: int) -> slice:
        """The rows of a dataset among all."""
        return slice(self.inputs.starts[number], self.inputs.starts[number + 1])

    # ------------------------------------------------------------------ tables
    def examples(self) -> Iterator[pa.Table]:
        """Kept rows as they are; those that were written have theirs from the units that wrote them."""
        schema = TABLES["examples"]
        as_it_is = self.kept.copy()
        as_it_is[self.rewritten.positions] = False
        yield schema.empty_table()
        for number, dataset in enumerate(self.datasets):
            table = dataset.table("examples").filter(pa.array(as_it_is[self.own(number)]))
            shards = pa.array(np.asarray(table["shard_index"].to_numpy(), np.int32) + self.first_shard[number])
            yield replace_column(table, "shard_index", shards.cast(pa.int32())).cast(schema)

    def assets(self) -> Iterator[pa.Table]:
        kept = self._kept_assets()
        yield TABLES["assets"].empty_table()
        for dataset in self.datasets:
            table = dataset.table("assets").cast(TABLES["assets"])
            yield table.filter(pa.array(np.isin(asset_keys(table), kept)))

    def provenance(self) -> Iterator[pa.Table]:
        """Rows of kept examples, and further origins of assets that stay."""
        kept = self._kept_assets()
        yield PROVENANCE.empty_table()
        for number, dataset in enumerate(self.datasets):
            ids = dataset.table("examples", ["example_id"]).filter(pa.array(self.kept[self.own(number)]))
            table = dataset.table("provenance").cast(PROVENANCE)
            images = asset_keys(table)
            stays = np.isin(leading(table["example_id"]), leading(ids["example_id"]))
            stays |= (images != 0) & np.isin(images, kept)
            yield self._renamed(table, number).filter(pa.array(stays))

    def _renamed(self, table: pa.Table, number: int) -> pa.Table:
        """Provenance with the new ids of rows that were changed, and what derived them."""
        written, own = self.rewritten, self.own(number)
        here = slice(*np.searchsorted(written.positions, (own.start, own.stop)))
        if here.start == here.stop:
            return table
        ids = self.datasets[number].table("examples", ["example_id"])["example_id"]
        before = leading(ids.take(pa.array(written.positions[here] - own.start)))
        order = np.argsort(before, kind="stable")
        known = leading(table["example_id"])
        at = order[np.minimum(np.searchsorted(before[order], known), len(order) - 1)]
        hit = pa.array(before[at] == known)
        after = pa.array([hex_id(pair) for pair in written.ids[here]], pa.string()).take(pa.array(at))
        for name, values in (("example_id", after), ("derived_recipe", pa.scalar(written.recipe))):
            table = replace_column(table, name, pc.if_else(hit, values, table[name]))
        return table

    def _kept_assets(self) -> Keys:
        return np.unique(self.counted.image_keys[self.kept[self.counted.image_rows]])

    def removed(self, columns: list[str]) -> Iterator[tuple[Positions, pa.Table]]:
        """Of each dataset: the rows left out, ascending, and these columns of its tables/examples for them."""
        for number, dataset in enumerate(self.datasets):
            own = self.own(number)
            gone = np.flatnonzero(~self.kept[own])
            yield gone + own.start, dataset.table("examples", columns).take(pa.array(gone))

    # ------------------------------------------------------------------ totals
    def totals(self) -> dict[str, dict[str, dict[str, int]]]:
        """by_split and by_source of the kept rows."""
        of_split = self.inputs.split_of()
        return {
            "by_split": {s: self._sums(self.kept & (of_split == k)) for k, s in enumerate(self.inputs.splits)},
            "by_source": {
                s: self._sums(self.kept & (self.counted.sources == k)) for k, s in enumerate(self.counted.names)
            },
        }

    def _sums(self, rows: npt.NDArray[np.bool_]) -> dict[str, int]:
        counted = self.counted
        return {
            "bytes": int(counted.bytes[rows].sum()),
            "examples": int(rows.sum()),
            "images": int(counted.images[rows].sum()),
            "pixels": int(counted.pixels[rows].sum()),
        }
