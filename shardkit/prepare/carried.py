"""Tables of the inputs that later stages ask for: a view carries them on for the rows that it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.dedup.keys import Keys, hex_id, leading, look_up
from shardkit.prepare.selection import Selection
from shardkit.store.schema import TABLES
from shardkit.store.tables import replace_column


def carried(selection: Selection) -> Mapping[str, Iterator[pa.Table]]:
    """What dedup joined, and of one input what its split decided."""
    tables: dict[str, Iterator[pa.Table]] = {}
    datasets = selection.datasets
    if any(dataset.has_table("clusters") for dataset in datasets):
        tables |= {"edges": _edges(selection), "clusters": _clusters(selection)}
    if len(datasets) == 1:
        tables |= {name: _whole(selection, name) for name in ("ledger", "boilerplate") if datasets[0].has_table(name)}
        if datasets[0].has_table("groups"):
            tables["groups"] = _groups(selection)
    return tables


def joined_before(selection: Selection, *, num_clusters: int) -> Mapping[str, Iterator[pa.Table]]:
    """What a dedup hands on of an earlier one, behind its own rows: what was left out then ties what it resembles now, too.

    Args:
        num_clusters: its own.
    """
    if not any(dataset.has_table("clusters") for dataset in selection.datasets):
        return {}
    names = _Names.of(selection)
    return {
        "edges": names.renamed(_edges(selection), "kept_id", "removed_id"),
        "near": names.renamed(_near(selection), "example_id", "other_id"),
        "clusters": _without_gone(_clusters(selection, first=num_clusters), selection),
    }


def _edges(selection: Selection) -> Iterator[pa.Table]:
    return _of_inputs(selection, "edges")


def _near(selection: Selection) -> Iterator[pa.Table]:
    return _of_inputs(selection, "near")


def _of_inputs(selection: Selection, name: str) -> Iterator[pa.Table]:
    yield TABLES[name].empty_table()
    for dataset in selection.datasets:
        if dataset.has_table(name):
            yield dataset.table(name).cast(TABLES[name])


def _without_gone(clusters: Iterator[pa.Table], selection: Selection) -> Iterator[pa.Table]:
    """Without keepers that are left out or changed now: they have their place in the new clusters, or another id."""
    kept = np.concatenate([np.empty(0, np.uint64), *(leading(table["example_id"]) for table in selection.examples())])
    for table in clusters:
        there = pa.array(np.isin(leading(table["example_id"]), kept))
        yield table.filter(pc.or_(pc.invert(table["kept"]), there))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Names:
    """The ids of rows that a stage changed."""

    before: Keys
    """Ascending."""
    after: pa.Array

    @classmethod
    def of(cls, selection: Selection) -> _Names:
        written = selection.rewritten
        before = [np.empty(0, np.uint64)]
        for number, dataset in enumerate(selection.datasets):
            own = selection.own(number)
            here = written.positions[slice(*np.searchsorted(written.positions, (own.start, own.stop)))]
            if len(here):
                ids = dataset.table("examples", ["example_id"])["example_id"]
                before.append(leading(ids.take(pa.array(here - own.start))))
        keys = np.concatenate(before)
        order = np.argsort(keys, kind="stable")
        after = pa.array([hex_id(written.ids[place]) for place in order.tolist()], pa.string())
        return cls(before=keys[order], after=after)

    def renamed(self, tables: Iterator[pa.Table], *columns: str) -> Iterator[pa.Table]:
        for table in tables:
            for name in columns:
                at = look_up(leading(table[name]), self.before, np.arange(len(self.before)))
                now = self.after.take(pa.array(at, mask=at < 0))
                table = replace_column(table, name, pc.coalesce(now, table[name].combine_chunks()))
            yield table


def _clusters(selection: Selection, *, first: int = 0) -> Iterator[pa.Table]:
    """Clusters of all inputs under one numbering, with the places of their rows among the output's shards."""
    schema = TABLES["clusters"]
    yield schema.empty_table()
    next_cluster = first
    for number, dataset in enumerate(selection.datasets):
        if not dataset.has_table("clusters"):
            continue
        table = dataset.table("clusters").cast(schema)
        for name, begin in (("cluster", next_cluster), ("shard_index", selection.first_shard[number])):
            moved = pa.array(np.asarray(table[name].to_numpy(), np.int32) + np.int32(begin))
            table = replace_column(table, name, moved)
        if table.num_rows:
            next_cluster = int(np.max(table["cluster"].to_numpy())) + 1
        yield table


def _whole(selection: Selection, name: str) -> Iterator[pa.Table]:
    yield selection.datasets[0].table(name)


def _groups(selection: Selection) -> Iterator[pa.Table]:
    yield selection.datasets[0].table("groups").filter(pa.array(selection.kept))
