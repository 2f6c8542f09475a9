"""The tables of a dataset without what is forgotten: what later stages ask for, and nothing that names it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.components import Edges, Indices, components, same_value
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.lineage.forget.decide import Decision
from shardkit.prepare.lineage.forget.write import Kept
from shardkit.prepare.lineage.index import LINKS
from shardkit.prepare.split.earlier import places, removed
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column


def tables(kept: Kept) -> Mapping[str, Iterator[pa.Table]]:
    """Of the input's tables those that speak of its rows; reports on how it was made stay with it."""
    dataset, decision = kept.dataset, kept.decision
    made = {"assets": _assets(dataset, decision)}
    if kept.sequences is not None:  # their units have the rest
        made["lengths"] = iter([kept.sequences.lengths.slice(0, 0)])
    for name in LINKS:
        if dataset.has_table(name):
            made[name] = _links(dataset, name, decision)
    if dataset.has_table("groups"):
        made["groups"] = _groups(kept)
    elif any(one.has_table("clusters") for one in _examples_of(dataset)):
        made["groups"] = _clustered(kept)
    if dataset.has_table("ledger"):
        made["ledger"] = _ledger(dataset, decision)
    if dataset.has_table("boilerplate"):
        made["boilerplate"] = _boilerplate(dataset, decision)
    return made


def provenance(dataset: Dataset, decision: Decision) -> Iterator[pa.Table]:
    yield dataset.table("provenance").cast(PROVENANCE).filter(pa.array(decision.provenance))


def _assets(dataset: Dataset, decision: Decision) -> Iterator[pa.Table]:
    table = dataset.table("assets").cast(TABLES["assets"])
    yield table.filter(pa.array(~np.isin(leading(table["asset_id"]), decision.gone_assets)))


def _links(dataset: Dataset, name: str, decision: Decision) -> Iterator[pa.Table]:
    table = dataset.table(name).cast(TABLES[name])
    gone = np.zeros(table.num_rows, np.bool_)
    for column in LINKS[name]:
        gone |= np.isin(leading(table[column]), decision.gone_ids)
    yield table.filter(pa.array(~gone))


def _groups(kept: Kept) -> Iterator[pa.Table]:
    """Components that are named by what is forgotten take the name of the first example that stays in them."""
    table = kept.dataset.table("groups").cast(TABLES["groups"]).take(pa.array(kept.order))
    yield _renamed(table, _named_by_gone(table["component"], kept.decision))


def _examples_of(dataset: Dataset) -> tuple[Dataset, ...]:
    """The datasets that know what ties its rows: itself, or those that were tokenized or shrunk and never split."""
    if dataset.stage in {"tokenize", "shrink"} and not dataset.is_split:
        return tuple(dataset.holder(dataset_id) for dataset_id in dataset.manifest.inputs)
    return (dataset,)


def _named_by_gone(column: pa.ChunkedArray, decision: Decision) -> pa.Array:
    gone = decision.examples.filter(pa.array(~decision.kept))
    left = decision.examples.filter(pa.array(decision.kept))
    names = pa.concat_arrays(
        [*gone["example_id"].chunks, *_only_in(gone["group"], left["group"]).chunks] or [pa.array([], pa.string())]
    )
    return pc.is_in(column, names)


def _only_in(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    return one.filter(pc.invert(pc.is_in(one, other)))


def _renamed(table: pa.Table, wanted: pa.ChunkedArray) -> pa.Table:
    """The rows with another name for the components in `wanted` rows: their first example."""
    components_ = table["component"].combine_chunks().dictionary_encode()
    codes = np.asarray(components_.indices.to_numpy(zero_copy_only=False), np.int64)
    first = np.full(len(components_.dictionary), -1)
    first[codes[::-1]] = np.arange(table.num_rows)[::-1]
    named = table["example_id"].combine_chunks().take(pa.array(first[codes]))
    column = pc.if_else(wanted.combine_chunks(), named, table["component"].combine_chunks())
    return replace_column(table, "component", column)


def _clustered(kept: Kept) -> Iterator[pa.Table]:
    """What duplicates tied that dedup removed: they lie in no shard of the output, so the components are written."""
    examples = kept.decision.examples
    ids = leading(examples["example_id"])
    nodes: list[Keys] = [ids]
    clustered: list[tuple[Keys, Indices]] = []
    linked: list[tuple[Keys, Keys]] = []
    declared: list[tuple[Keys, pa.ChunkedArray]] = []
    for dataset in _examples_of(kept.dataset):
        if dataset.has_table("clusters"):
            clusters = dataset.table("clusters", ["cluster", "example_id"])
            edges = dataset.table("edges", ["kept_id", "removed_id"])
            clustered.append((leading(clusters["example_id"]), np.asarray(clusters["cluster"].to_numpy(), np.int64)))
            linked.append((leading(edges["kept_id"]), leading(edges["removed_id"])))
            nodes += [clustered[-1][0], *linked[-1]]
            left = removed(dataset)
            declared.append((leading(left["example_id"]), places(dataset, left, ["group"])["group"]))
    known = np.unique(np.concatenate(nodes))
    # A row with smaller pictures names the one that was clustered as its parent.
    parents = leading(examples["parent_id"])
    named = np.unique(np.concatenate(nodes[1:]))
    ids = np.where(~np.isin(ids, named) & np.isin(parents, named), parents, ids)
    declared.append((ids, examples["group"]))
    ties: list[Edges] = [
        *(
            same_value((numbers + 1).astype(np.uint64), np.searchsorted(known, members))
            for members, numbers in clustered
        ),
        *((np.searchsorted(known, one), np.searchsorted(known, two)) for one, two in linked),
        _of_one_group(known, declared),
    ]
    found = components(len(known), ties)[np.searchsorted(known, ids)]
    order = pa.array(kept.order)
    yield _components(examples.select(["example_id", "group"]).take(order).combine_chunks(), found[kept.order])


def _of_one_group(known: Keys, declared: Sequence[tuple[Keys, pa.ChunkedArray]]) -> Edges:
    """Edges between rows of one declared group: the group of a removed row is that of its keeper, too.

    Args:
        known: ids, ascending.
        declared: ids and the groups of their rows.
    """
    groups = pa.chunked_array([chunk for _, column in declared for chunk in column.chunks], pa.string())
    codes = groups.combine_chunks().dictionary_encode().indices
    numbers = np.asarray(pc.fill_null(pc.add(codes.cast(pa.int64()), 1), 0).to_numpy(), np.uint64)
    return same_value(numbers, np.searchsorted(known, np.concatenate([ids for ids, _ in declared])))


def _components(kept: pa.Table, component: Indices) -> pa.Table:
    _, first, codes = np.unique(component, return_index=True, return_inverse=True)
    names = kept["example_id"].combine_chunks()
    columns = {
        "example_id": names,
        "declared": kept["group"],
        "component": names.take(pa.array(first[codes])),
    }
    return pa.table(columns, schema=TABLES["groups"])


def _ledger(dataset: Dataset, decision: Decision) -> Iterator[pa.Table]:
    """Without keys that only forgotten rows had; the order of the others stays."""
    table = (
        dataset.table("ledger")
        .cast(TABLES["ledger"])
        .filter(pc.invert(_named_by_gone(dataset.table("ledger")["key"], decision)))
    )
    yield replace_column(table, "order", pa.array(np.arange(table.num_rows, dtype=np.int64)))


def _boilerplate(dataset: Dataset, decision: Decision) -> Iterator[pa.Table]:
    """Without pictures that are gone, and without texts of which no example may be left."""
    table = dataset.table("boilerplate").cast(TABLES["boilerplate"])
    gone = int((~decision.kept).sum())
    enough = np.asarray(table["examples"].to_numpy(), np.int64) > gone
    known = pa.array(_values(dataset, decision), pa.string())
    yield table.filter(pc.or_(pa.array(enough), pc.is_in(table["value"].cast(pa.string()), known)))


def _values(dataset: Dataset, decision: Decision) -> list[str]:
    """Ids and pixel ids of pictures that stay."""
    table = dataset.table("assets", ["asset_id", "pixel_id"])
    left = table.filter(pa.array(~np.isin(leading(table["asset_id"]), decision.gone_assets)))
    return [*left["asset_id"].unique().to_pylist(), *left["pixel_id"].unique().to_pylist()]
