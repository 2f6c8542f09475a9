"""A view that selects rows of its inputs: their shards by reference, and the tables of the rows that stay.

dedup and decontaminate leave rows out and change none, so what they write of the kept rows is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.dedup.inputs import Inputs, Positions
from shardkit.prepare.dedup.keys import Keys, asset_keys, leading
from shardkit.records.manifest import ShardEntry
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES


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
class Selection:
    inputs: Inputs
    counted: Counted
    kept: npt.NDArray[np.bool_]
    """[N] of all rows; those of references are not kept, they are not here."""

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
        return {s.holder.id: s.holder.path for dataset in self.datasets for s in dataset.shards}

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
        schema = TABLES["examples"]
        place = schema.get_field_index("shard_index")
        yield schema.empty_table()
        for number, dataset in enumerate(self.datasets):
            table = dataset.table("examples").filter(pa.array(self.kept[self.own(number)]))
            shards = pa.array(np.asarray(table["shard_index"].to_numpy(), np.int32) + self.first_shard[number])
            yield table.set_column(place, schema.field(place), shards.cast(pa.int32())).cast(schema)

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
            yield table.filter(pa.array(stays))

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
