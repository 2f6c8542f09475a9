"""Columns of a condition that stand in the tables of the dataset, and the lines that it is asked of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, asset_keys, leading, look_up
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.select.columns import COLUMNS
from shardkit.prepare.select.evaluate import Lines
from shardkit.prepare.select.read import Part, Wanted
from shardkit.store.dataset import Dataset

_EXAMPLES = ("has_email", "has_phone", "example_id", "input", "position")
_ASSETS = ("size", "class", "has_gps")


class Tables:
    """The rows of the dataset's tables that the condition asks for, by row and by image."""

    def __init__(self, dataset: Dataset, wanted: Wanted) -> None:
        self._wanted = wanted
        plain = [name for name in _EXAMPLES if name in wanted.columns]
        self._examples = (
            dataset.table("examples", ["example_id", "shard_index", "source", *plain]) if _tabled(wanted) else None
        )
        self._splits = pa.array([shard.split for shard in dataset.shards], pa.string())
        facts = [name for name in _ASSETS if name in wanted.columns]
        self._assets = _Known(dataset.table("assets", ["asset_id", "frame", *facts]), facts) if facts else None
        self._licences = _Licences(dataset) if "licence" in wanted.columns else None

    def lines(self, part: Part) -> Lines:
        """The lines of a slice."""
        of_images = any(COLUMNS[name].of_image for name in self._wanted.columns)
        image_of = self._image_lines(part) if of_images else np.full(len(part.positions), -1)
        row_of = np.repeat(np.arange(len(part.positions)), np.maximum(part.images, 1) if of_images else 1)
        columns: dict[tuple[str, ...], pa.Array] = {}
        if self._licences is not None:
            ids, sources = leading(self._rows(part, "example_id")), self._rows(part, "source")
            spread = self._licences.spread(
                part, row_of, image_of, ids, sources, as_int32(self._rows(part, "shard_index"))
            )
            row_of, image_of, columns["licence",] = spread
        images = pa.array(image_of, mask=image_of < 0)
        for key, column in part.columns.items():
            if key == ("licence",):
                continue
            columns[key] = column.take(images if key[0] in COLUMNS and COLUMNS[key[0]].of_image else pa.array(row_of))
        for name in self._wanted.columns:
            if name in _EXAMPLES or name == "split":
                columns[name,] = self._rows(part, name).combine_chunks().take(pa.array(row_of))
            elif name in _ASSETS and self._assets is not None:
                columns[name,] = self._assets.of(name, part.image_keys).take(images)
        return Lines(
            columns=columns,
            starts=np.searchsorted(row_of, np.arange(len(part.positions))),
            num_lines=len(row_of),
            images=image_of >= 0,
        )

    def _image_lines(self, part: Part) -> npt.NDArray[np.int64]:
        """The image of each line; -1 for an example without one."""
        sizes = np.maximum(part.images, 1)
        found = np.full(int(sizes.sum()), -1)
        found[np.repeat(part.images > 0, sizes)] = np.arange(len(part.image_keys))
        return found

    def _rows(self, part: Part, name: str) -> pa.ChunkedArray:
        assert self._examples is not None, "a column of tables/examples is asked for"
        if name == "split":
            return pa.chunked_array([self._splits.take(pa.array(as_int32(self._rows(part, "shard_index"))))])
        return self._examples[name].take(pa.array(part.positions))


def _tabled(wanted: Wanted) -> bool:
    return not {*_EXAMPLES, "split", "licence"}.isdisjoint(wanted.columns)


class _Known:
    """Columns of tables/assets by image."""

    def __init__(self, table: pa.Table, names: list[str]) -> None:
        keys = asset_keys(table)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._columns = {name: _AS[name](table[name].combine_chunks()) for name in names}

    def of(self, name: str, keys: Keys) -> pa.Array:
        """[M]; null where the image is not in the table."""
        at = look_up(keys, self._keys, self._order)
        return self._columns[name].take(pa.array(at, mask=at < 0))


_AS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "size": lambda column: pc.cast(column, pa.float64()),
    "class": lambda column: column,
    "has_gps": lambda column: column,
}


class _Licences:
    """Under which licences an image came: in this example, else anywhere (the example itself has changed since)."""

    def __init__(self, dataset: Dataset) -> None:
        table = dataset.table("provenance", ["asset_id", "frame", "example_id", "licence"])
        table = table.filter(table["asset_id"].is_valid())
        encoded = table["licence"].combine_chunks().dictionary_encode()
        self._names = encoded.dictionary
        codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(), np.int64)
        images = asset_keys(table)
        self._here = _Listed(_together(images, leading(table["example_id"])), codes)
        self._anywhere = _Listed(images, codes)
        ingests = Ancestry(dataset).ingests
        self._of_source = {source: one.recipe.get("licence") for source, one in ingests.items()}
        """`--licence` of its ingest, where that is at hand ..."""
        stated = [s.holder.recipe.get("licence") if s.holder.stage == "ingest" else None for s in dataset.shards]
        self._of_shard = pa.array(stated, pa.string())
        """... and where the shard is one of an ingest itself."""

    def spread(  # noqa: PLR0917 - lines, and the rows that they are of
        self,
        part: Part,
        row_of: npt.NDArray[np.int64],
        image_of: npt.NDArray[np.int64],
        ids: Keys,
        sources: pa.ChunkedArray,
        shards: npt.NDArray[np.int32],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], pa.Array]:
        """Lines with one licence each, where an image came under several.

        Args:
            row_of: [L] row of each line.
            image_of: [L] image of each line, or -1.
            ids: [n] first 64 bits of the example ids.
            sources: [n] name of the row's source.
            shards: [n] place of the row's shard.
        """
        # A line without an image takes the key behind the last.
        keys = np.append(part.image_keys, np.uint64(0))[image_of]
        begin, end = self._here.range(_together(keys, ids[row_of]))
        elsewhere = begin == end
        other = self._anywhere.range(keys)
        begin, end = np.where(elsewhere, other[0], begin), np.where(elsewhere, other[1], end)
        counts = np.where(image_of < 0, 1, np.maximum(end - begin, 1))
        line_of = np.repeat(np.arange(len(row_of)), counts)
        within = np.arange(len(line_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        known = ((image_of >= 0) & (end > begin))[line_of]
        at = np.where(known, begin[line_of] + within, 0)
        codes = np.where(elsewhere[line_of], self._anywhere.at(at), self._here.at(at))
        of_images = self._names.take(pa.array(codes, mask=~known | (codes < 0)))
        # An example without an image has no row of provenance of its own.
        of_sources = pa.array([self._of_source.get(source) for source in sources.to_pylist()], pa.string())
        of_texts = pc.coalesce(part.columns["licence",], self._of_shard.take(pa.array(shards)), of_sources)
        of_texts = of_texts.take(pa.array(row_of[line_of]))
        licences = pc.if_else(pa.array(image_of[line_of] < 0), of_texts, of_images)
        return row_of[line_of], image_of[line_of], licences


class _Listed:
    """Codes by key, several of a key side by side, each once."""

    def __init__(self, keys: Keys, codes: npt.NDArray[np.int64]) -> None:
        order = np.lexsort((codes, keys))
        keys, codes = keys[order], codes[order]
        first = np.ones(len(keys), np.bool_)
        first[1:] = (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1])
        self._keys, self._codes = keys[first], codes[first]

    def range(self, keys: Keys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")

    def at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if not len(self._codes):
            return np.full(len(places), -1)
        found: npt.NDArray[np.int64] = self._codes[np.minimum(places, len(self._codes) - 1)]
        return found


def _together(images: Keys, examples: Keys) -> Keys:
    """One key of an image in an example."""
    mixed: Keys = images * np.uint64(0x9E3779B97F4A7C15) ^ examples
    return mixed
