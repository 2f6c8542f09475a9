"""The tables of the input under the names that its examples and images have now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.media.decode import DECODER
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.keys import Keys, asset_keys, leading, look_up
from shardkit.prepare.shrink.origin import stated
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Renamed:
    """Old names -> new names, by the first 64 bits of the old."""

    examples: _Names
    assets: _Names
    """By asset and frame."""
    derived: pa.Table
    """tables/derived of the run."""
    recipe: str
    """Fingerprint of what derived them."""

    @classmethod
    def of(cls, examples: pa.Table, derived: pa.Table, *, recipe: str) -> Renamed:
        """The new names, from what a run derived.

        Args:
            examples: example_id and parent_id of the examples that changed.
            derived: tables/derived of the run.
        """
        old = pa.table({"asset_id": derived["from_asset_id"], "frame": derived["from_frame"]})
        return cls(
            examples=_Names.of(leading(examples["parent_id"]), examples["example_id"]),
            assets=_Names.of(asset_keys(old), derived["asset_id"]),
            derived=derived,
            recipe=recipe,
        )

    # ------------------------------------------------------------------ tables
    def kept_assets(self, dataset: Dataset) -> Iterator[pa.Table]:
        """tables/assets of the images that stayed as they were."""
        table = dataset.table("assets").cast(TABLES["assets"])
        yield table.filter(pa.array(self.assets.find(asset_keys(table)) < 0))

    def provenance(self, dataset: Dataset) -> Iterator[pa.Table]:
        """Rows of the input; those of images that changed name the original."""
        table = dataset.table("provenance").cast(PROVENANCE)
        at = self.assets.find(asset_keys(table))
        changed = pa.array(at >= 0)
        names = self.assets.take(at)
        columns = {
            "example_id": self.examples.renamed(table["example_id"]),
            "asset_id": pc.coalesce(names, table["asset_id"]),
            "frame": pc.if_else(changed, pa.scalar(0, pa.int32()), table["frame"]),
            "digest": pc.if_else(changed, pc.binary_join_element_wise("sha256:", names, ""), table["digest"]),
            "decoder": pc.if_else(changed, DECODER, table["decoder"]),
            "preprocessing": pc.if_else(changed, stated(table), table["preprocessing"]),
            "derived_recipe": pc.if_else(changed, self.recipe, table["derived_recipe"]),
        }
        for name, column in columns.items():
            table = replace_column(table, name, column)
        yield table

    def carried(self, dataset: Dataset, order: Indices) -> Mapping[str, Iterator[pa.Table]]:
        """What a split decided, and what dedup found among the rows that are here.

        Args:
            order: rows of tables/examples of the input in the order in which they were written.
        """
        tables = {}
        if dataset.has_table("edges"):
            tables["edges"] = self._edges(dataset)
        if dataset.has_table("groups"):
            tables["groups"] = self._groups(dataset, order)
        if dataset.has_table("ledger"):
            tables["ledger"] = iter([dataset.table("ledger").cast(TABLES["ledger"])])
        if dataset.has_table("boilerplate"):
            tables["boilerplate"] = self._boilerplate(dataset)
        return tables

    def _edges(self, dataset: Dataset) -> Iterator[pa.Table]:
        """Edges of two rows that are here."""
        table = dataset.table("edges").cast(TABLES["edges"])
        here = dataset.table("examples", ["example_id"])["example_id"]
        both = pc.and_(pc.is_in(table["kept_id"], here), pc.is_in(table["removed_id"], here))
        table = table.filter(both)
        for name in ("kept_id", "removed_id"):
            table = replace_column(table, name, self.examples.renamed(table[name]))
        yield table

    def _groups(self, dataset: Dataset, order: Indices) -> Iterator[pa.Table]:
        table = dataset.table("groups").cast(TABLES["groups"]).take(pa.array(order))
        yield replace_column(table, "example_id", self.examples.renamed(table["example_id"]))

    def _boilerplate(self, dataset: Dataset) -> Iterator[pa.Table]:
        """Values under their new names. One may be several now: pages of one file, equal pixels in several formats."""
        table = dataset.table("boilerplate").cast(TABLES["boilerplate"])
        yield table.slice(0, 0)
        for kind in table["kind"].unique().to_pylist():
            own = table.filter(pc.equal(table["kind"], kind))
            old, new = self._pairs(kind, own["value"])
            for row in own.to_pylist():
                names = new.filter(pc.equal(old, row["value"])).unique().to_pylist() or [row["value"]]
                yield pa.Table.from_pylist([{**row, "value": name} for name in sorted(names)], schema=table.schema)

    def _pairs(self, kind: str, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """(old, new) names of those values that have new ones."""
        if kind == "near_vector":  # the value is an example
            new = self.examples.renamed(values)
            return values, new
        column = {"asset": "asset_id", "pixel": "pixel_id", "near_pixel": "pixel_id"}.get(kind)
        if column is None:
            return values.slice(0, 0), values.slice(0, 0)
        found = self.derived.filter(pc.is_in(self.derived[f"from_{column}"], values.combine_chunks().cast(pa.string())))
        return found[f"from_{column}"], found[column]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Names:
    """New names by old keys."""

    keys: Keys
    """Ascending, each once."""
    names: pa.ChunkedArray

    @classmethod
    def of(cls, keys: Keys, names: pa.ChunkedArray) -> _Names:
        known, first = np.unique(keys, return_index=True)
        return cls(keys=known, names=names.take(pa.array(first)))

    def find(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Place of each key's name; -1 where it has none."""
        return look_up(keys, self.keys, np.arange(len(self.keys)))

    def take(self, at: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """Names of these places; null for -1."""
        return self.names.take(pa.array(at, mask=at < 0))

    def renamed(self, ids: pa.ChunkedArray) -> pa.ChunkedArray:
        """Ids with their new names, where they have one."""
        return pc.coalesce(self.take(self.find(leading(ids))), ids)
