"""The inputs as one view: which rows of which shards, and what their tables say of the rows that stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.prepare.dedup.keys import asset_keys
from shardkit.prepare.named import open_by_id
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from shardkit.records.manifest import ShardEntry


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """The selected rows of one input shard: what one receipt answers for."""

    index: int
    """Also the place of the shard among those that the output refers to."""
    dataset: Dataset
    shard: int
    """Place of the shard in its dataset."""
    split: str
    examples: pa.Table
    """Their rows of tables/examples, in order."""

    @property
    def name(self) -> str:
        return f"{self.index:05d}"

    @property
    def rows(self) -> list[int]:
        """Rows of the shard."""
        rows: list[int] = self.examples["row"].to_pylist()
        return rows


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    inputs: tuple[Dataset, ...]
    """By id, so that the order on the command line does not matter."""
    splits: tuple[str, ...]
    units: tuple[Unit, ...]
    """Split by split."""

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """The shards that the output refers to: one a unit."""
        entries = [(unit, unit.dataset.shards[unit.shard]) for unit in self.units]
        return tuple(replace(shard.entry, dataset=shard.holder.id) for _, shard in entries)

    @property
    def locations(self) -> dict[str, Path]:
        """Where the inputs are, and the datasets that hold those shards."""
        holders = [unit.dataset.shards[unit.shard].holder for unit in self.units]
        return {dataset.id: dataset.path for dataset in (*self.inputs, *holders)}

    @property
    def places(self) -> list[Path]:
        """Folders that the output must keep away from."""
        return [*(dataset.path for dataset in self.inputs), *self.locations.values()]

    def examples(self, kept: Mapping[int, npt.NDArray[np.bool_]]) -> Iterator[pa.Table]:
        """tables/examples of the output: the rows that `kept` marks in each unit."""
        yield TABLES["examples"].empty_table()
        for unit in self.units:
            table = unit.examples.filter(pa.array(kept[unit.index]))
            numbers = pa.array(np.full(table.num_rows, unit.index, np.int32))
            yield replace_column(table, "shard_index", numbers)

    def provenance(
        self, kept: Mapping[int, npt.NDArray[np.bool_]], *, tokenizer: str, processor: str | None, recipe: str
    ) -> Iterator[pa.Table]:
        """Provenance of the examples that stay and of their images, with what derived their sequences.

        An image may have further origins, left by duplicates that were removed: their rows stay with it.
        """
        for dataset in self.inputs:
            table = dataset.table("provenance").cast(PROVENANCE)
            own, images = self._own(dataset, table, kept), asset_keys(table)
            table = table.filter(pa.array(own | ((images != 0) & np.isin(images, images[own]))))
            for name, value in (("derived_recipe", recipe), ("tokenizer", tokenizer), ("processor", processor)):
                table = replace_column(table, name, pa.array([value] * table.num_rows, pa.string()))
            yield table

    def assets(self, kept: Mapping[int, npt.NDArray[np.bool_]]) -> Iterator[pa.Table]:
        """tables/assets of the images of examples that stay."""
        for dataset in self.inputs:
            shown = dataset.table("provenance")
            images = asset_keys(shown)[self._own(dataset, shown, kept)]
            table = dataset.table("assets").cast(TABLES["assets"])
            yield table.filter(pa.array(np.isin(asset_keys(table), images)))

    def _own(
        self, dataset: Dataset, provenance: pa.Table, kept: Mapping[int, npt.NDArray[np.bool_]]
    ) -> npt.NDArray[np.bool_]:
        """Which rows of provenance are of examples that stay."""
        found = pc.is_in(provenance["example_id"], self._ids(dataset, kept))
        return np.asarray(found.to_numpy(), np.bool_)

    def _ids(self, dataset: Dataset, kept: Mapping[int, npt.NDArray[np.bool_]]) -> pa.Array:
        units = [unit for unit in self.units if unit.dataset is dataset]
        ids = [unit.examples["example_id"].filter(pa.array(kept[unit.index])).combine_chunks() for unit in units]
        return pa.concat_arrays(ids) if ids else pa.array([], pa.string())


def open_view(inputs: Sequence[Path], *, bases: Sequence[Path]) -> View:
    """Open the inputs as one.

    Raises:
        ConfigError: where one is named twice, holds sequences, or some are split and some are not.
    """
    datasets = open_by_id(inputs, base=bases)
    for dataset in datasets:
        if dataset.stage == "tokenize":
            raise ConfigError(
                "the input holds sequences already",
                where=str(dataset.path),
                hint="name the dataset they were made from",
            )
        if dataset.is_split != datasets[0].is_split:
            raise ConfigError(
                f"{datasets[0].path} has the splits {', '.join(datasets[0].splits)}, "
                f"{dataset.path} has {', '.join(dataset.splits)}",
                hint="join them before the split with `shardkit concat`, or split the one without with --like the other",
            )
    splits = tuple(dict.fromkeys(split for dataset in datasets for split in dataset.splits))
    slices = [piece for dataset in datasets for piece in _slices(dataset)]
    slices.sort(key=lambda piece: splits.index(piece[0].shards[piece[1]].split))
    units = tuple(
        Unit(index=index, dataset=dataset, shard=shard, split=dataset.shards[shard].split, examples=examples)
        for index, (dataset, shard, examples) in enumerate(slices)
    )
    return View(inputs=tuple(datasets), splits=splits, units=units)


def _slices(dataset: Dataset) -> Iterator[tuple[Dataset, int, pa.Table]]:
    """The selected rows of each shard that has any."""
    table = dataset.table("examples").cast(TABLES["examples"])
    shard_of = table["shard_index"].to_numpy()
    for shard in dataset.shards:
        rows = np.flatnonzero(shard_of == shard.index)
        if len(rows):
            yield dataset, shard.index, table.take(pa.array(rows))
