"""Where the images of some rows came from: rows of the provenance table, found without holding a Python object for each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.dedup.keys import Keys, asset_key, asset_keys, leading
from shardkit.prepare.export.row import Origin
from shardkit.records import Example
from shardkit.store.dataset import Dataset

_IMAGE = "image"
_REPEATED = frozenset({"source", "revision", "retrieved_at", "input", "licence"})
FIELDS = ("source", "revision", "retrieved_at", "input", "position", "origin", "licence")


class Origins:
    """The provenance of a dataset, by example and by image."""

    def __init__(self, dataset: Dataset) -> None:
        table = dataset.table("provenance", ["asset_id", "frame", "example_id", *FIELDS])
        examples, assets = leading(table["example_id"]), asset_keys(table)
        # A million rows are held at once: ids as numbers, and what repeats once.
        columns = {name: table[name].dictionary_encode() if name in _REPEATED else table[name] for name in FIELDS}
        self._table = pa.table({_IMAGE: pa.array(assets), **columns})
        del table
        here = leading(dataset.table("examples", ["example_id"])["example_id"])
        # Rows of examples that are gone are further origins of images that stayed: those of removed duplicates.
        gone = ~np.isin(examples, here)
        self._by_example = _Sorted(examples)
        self._assets = assets
        self._further = _Sorted(np.where(gone, assets, 0))

    def of(self, ids: pa.ChunkedArray) -> pa.Table:
        """The provenance of examples: their own rows first, then further origins of their images."""
        own = self._by_example.find(np.unique(leading(ids)))
        further = self._further.find(np.unique(self._assets[own]))
        return self._table.take(pa.array(np.concatenate([own, np.setdiff1d(further, own)])))


class _Sorted:
    """Positions of values in an array, by value."""

    def __init__(self, values: Keys) -> None:
        self._order = np.argsort(values, kind="stable")
        self._values = values[self._order]

    def find(self, wanted: Keys) -> npt.NDArray[np.int64]:
        """The positions of all values that are wanted (unique; 0 is none), ascending."""
        wanted = wanted[wanted != 0]
        first = np.searchsorted(self._values, wanted, side="left")
        counts = np.searchsorted(self._values, wanted, side="right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(self._order[np.repeat(first, counts) + within])


def by_image(table: pa.Table) -> dict[int, tuple[Origin, ...]]:
    """Asset key -> its distinct origins, in the order of the table."""
    found: dict[int, dict[tuple[str | None, ...], None]] = {}
    values = zip(*(table[name].to_pylist() for name in FIELDS), strict=True)
    for key, origin in zip(table[_IMAGE].to_pylist(), values, strict=True):
        found.setdefault(key, {})[origin] = None
    return {key: tuple(dict(zip(FIELDS, one, strict=True)) for one in some) for key, some in found.items()}


def origins_of(example: Example, known: dict[int, tuple[Origin, ...]]) -> tuple[tuple[Origin, ...], ...]:
    """The origins of each image of an example."""
    return tuple(known.get(asset_key(image.asset_id, image.frame), ()) for image in example.images)
