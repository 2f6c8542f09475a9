"""What is to be forgotten, as columns answer it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import Progress, map_ordered
from shardkit.errors import ConfigError
from shardkit.prepare.dedup.inputs import Slice, as_int32, slices
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.report.measure import columns_of
from shardkit.store.dataset import Dataset

UNKNOWN = "unknown"
"""The licence of what states none."""

Marks = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Criteria:
    assets: tuple[str, ...]
    """Whole ids, ascending."""
    sources: tuple[str, ...]
    licences: tuple[str, ...]

    def sources_in(self, table: pa.Table, columns: tuple[str, ...]) -> Marks:
        """Rows in which one of these columns, or input:position, is a source that is named."""
        found = np.zeros(table.num_rows, np.bool_)
        if not self.sources:
            return found
        names = pa.array(self.sources, pa.string())
        for column in columns:
            found |= _marks(pc.is_in(table[column], names))
        place = pc.binary_join_element_wise(table["input"], table["position"], ":")
        return found | _marks(pc.is_in(place, names))

    def licences_in(self, column: pa.ChunkedArray) -> Marks:
        """Rows under a licence that is named."""
        return _marks(pc.is_in(pc.fill_null(column, UNKNOWN), pa.array(self.licences, pa.string())))


def _marks(column: pa.ChunkedArray) -> Marks:
    return np.asarray(pc.fill_null(column, False).to_numpy(), np.bool_)


@dataclass(frozen=True, kw_only=True, slots=True)
class OfTexts:
    """Rows of one dataset that are named by their own words, not by the provenance of a picture."""

    sources: Marks
    """[N] the source, raw file, raw row, group or an address in the metadata."""
    licences: Marks
    """[N] for examples without a picture."""


def of_texts(
    ancestry: Ancestry,
    criteria: Criteria,
    *,
    bases: tuple[Path, ...],
    workers: int,
    on_progress: Progress,
) -> OfTexts:
    """Look at every example by itself.

    Raises:
        ConfigError: where the licence of examples without pictures is stated in a dataset that is not at hand.
    """
    dataset = ancestry.dataset
    table = dataset.table("examples", ["example_id", "source", "input", "position", "group", "shard_index", "row"])
    sources = criteria.sources_in(table, ("source", "input", "group"))
    licences = np.zeros(table.num_rows, np.bool_)
    if not (criteria.sources or criteria.licences):
        return OfTexts(sources=sources, licences=licences)
    illustrated = np.isin(leading(table["example_id"]), _illustrated(dataset))
    stated = _Stated(ancestry)
    of_source = table["source"].combine_chunks()
    pieces = list(
        slices(dataset, bases, as_int32(table["shard_index"]), as_int32(table["row"]), np.arange(table.num_rows))
    )
    for done, (piece, named, own) in enumerate(map_ordered(partial(_read, criteria), pieces, workers=workers), 1):
        sources[piece.positions] |= named
        for place in np.flatnonzero(~illustrated[piece.positions]).tolist() if criteria.licences else ():
            at = int(piece.positions[place])
            licences[at] = stated.licence(of_source[at].as_py(), own[place]) in criteria.licences
        on_progress(done, len(pieces), "reading")
    return OfTexts(sources=sources, licences=licences)


def _illustrated(dataset: Dataset) -> Keys:
    """First 64 bits of the ids of examples that show a picture."""
    table = dataset.table("provenance", ["asset_id", "example_id"])
    return np.unique(leading(table.filter(table["asset_id"].is_valid())["example_id"]))


class _Stated:
    """The licence that was stated for a whole source when it was taken in."""

    def __init__(self, ancestry: Ancestry) -> None:
        self._ancestry = ancestry

    def licence(self, source: str, own: str | None) -> str:
        ingest = self._ancestry.ingests.get(source)
        if ingest is not None and ingest.recipe.get("licence"):
            return str(ingest.recipe["licence"])
        if own is None and ingest is None and self._ancestry.missing:
            raise ConfigError(
                f"the licence of the source {source} was stated when it was taken in, and that dataset is not at hand",
                where=str(self._ancestry.dataset.path),
                hint=f"say where the input {self._ancestry.missing[0].dataset_id} is with --base DIR, or forget it by "
                "--source",
            )
        return own or UNKNOWN


def _read(criteria: Criteria, piece: Slice) -> tuple[Slice, Marks, list[str | None]]:
    """Of the rows of a slice: whether their metadata hold a source that is named, and their licence; by a worker."""
    metadata = columns_of(piece, ("metadata",))["metadata"]
    named = np.zeros(len(piece.rows), np.bool_)
    for source in criteria.sources:
        near = _marks(pc.match_substring(metadata, orjson.dumps(source).decode()))
        for at in np.flatnonzero(near).tolist():
            named[at] |= source in _strings(orjson.loads(metadata[at].as_py()))
    licences: list[str | None] = [None] * len(piece.rows)
    if criteria.licences:
        for at in np.flatnonzero(_marks(pc.match_substring_regex(metadata, '"licen[cs]e"'))).tolist():
            own = orjson.loads(metadata[at].as_py())
            found = (own.get(name) for name in ("licence", "license"))
            licences[at] = next((value for value in found if isinstance(value, str) and value.strip()), None)
    return piece, named, licences


def _strings(value: object) -> Iterator[str]:
    """All strings of a JSON value, but keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
