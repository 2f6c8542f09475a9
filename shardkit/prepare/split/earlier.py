"""What the stages before know of the rows: removed duplicates, components of an earlier split, its boilerplate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, leading, look_up
from shardkit.prepare.split.declared import path_key
from shardkit.prepare.split.ties import KINDS, NEAR_KINDS, tie_bits
from shardkit.store.dataset import Dataset

_BATCH_ROWS = 65_536
_LEVEL_OF = {kind: level for table in (KINDS, NEAR_KINDS) for level, kind in table.items()}


def removed(dataset: Dataset) -> pa.Table:
    """example_id, shard_index and row of what the input left out as duplicates; none where it is no output of dedup."""
    columns = ["example_id", "shard_index", "row"]
    if not dataset.has_table("clusters"):
        return dataset.table("examples", columns).slice(0, 0)
    table = dataset.table("clusters", [*columns, "kept"])
    return table.filter(pc.invert(table["kept"])).drop_columns(["kept"])


def joined(dataset: Dataset, num_rows: int) -> Indices:
    """[num_rows] the component that an earlier split of this same input gave each row, as a number; -1 for none.

    What tied its rows may no longer be at hand: removed duplicates, parents, near pairs.
    """
    if not dataset.has_table("groups"):
        return np.full(num_rows, -1)
    component = dataset.table("groups", ["component"])["component"].combine_chunks().dictionary_encode()
    return np.asarray(component.indices.to_numpy(), np.int64)


def permitted(dataset: Dataset) -> tuple[Keys, Keys]:
    """Values that an earlier split found too frequent to tie by equality, and by nearness."""
    if not dataset.has_table("boilerplate"):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    table = dataset.table("boilerplate", ["kind", "value"])
    pairs = list(zip(table["kind"].to_pylist(), table["value"].to_pylist(), strict=True))
    equal, near = (
        np.array([tie_bits(_LEVEL_OF[kind], value) for kind, value in pairs if kind in kinds.values()], np.uint64)
        for kinds in (KINDS, NEAR_KINDS)
    )
    return equal, near


def places(dataset: Dataset, left: pa.Table, names: Sequence[str] = ("input", "position")) -> pa.Table:
    """Columns of tables/examples of removed rows, from the datasets that hold their shards."""
    found = {name: np.full(left.num_rows, None, object) for name in names}
    shards, rows = as_int32(left["shard_index"]), as_int32(left["row"])
    refs = dataset.shards
    holders = {refs[shard].holder.id: refs[shard].holder for shard in np.unique(shards)}
    for holder in holders.values():
        place = {entry.path: number for number, entry in enumerate(holder.manifest.shards)}
        there = np.array([place[ref.name] if ref.holder is holder else -1 for ref in refs], np.int64)[shards]
        wanted = np.flatnonzero(there >= 0)
        table = holder.table("examples", ["shard_index", "row", *names])
        known = (as_int32(table["shard_index"]).astype(np.int64) << 32) | as_int32(table["row"])
        order = np.argsort(known)
        at = order[np.searchsorted(known[order], (there[wanted] << 32) | rows[wanted])]
        for name in names:
            found[name][wanted] = table[name].take(pa.array(at)).to_pylist()
    return pa.table({name: pa.array(values, pa.string()) for name, values in found.items()})


def path_keys(group_by: str, table: pa.Table) -> Iterator[str | None]:
    """Declared keys of rows with input and position."""
    key = path_key(group_by)
    for batch in table.select(["input", "position"]).to_batches(max_chunksize=_BATCH_ROWS):
        yield from map(key, batch.column("input").to_pylist(), batch.column("position").to_pylist())


def selected_from(dataset: Dataset) -> Dataset:
    """The dataset whose rows this one has through stages that only leave rows out; itself where there is no such stage.

    Raises:
        IntegrityError: where it is not at hand.
    """
    at = dataset
    while at.stage in _SELECTING and len(at.manifest.inputs) == 1:
        at = at.holder(at.manifest.inputs[0])
    return at


def shrunk(dataset: Dataset) -> tuple[Dataset, ...]:
    """The datasets whose pictures were made smaller, and whose removed duplicates tie what is here.

    Raises:
        IntegrityError: where one is not at hand.
    """
    if dataset.has_table("groups"):
        return ()  # a split said what is tied
    # Whatever came after shrink refers to its shards; it hands edges on where there was a dedup before it.
    holders = {ref.holder.id: ref.holder for ref in dataset.shards}
    made = (one for one in holders.values() if one.stage == "shrink" and one.has_table("edges"))
    return tuple(one.holder(one.manifest.inputs[0]) for one in made)


def followed(dataset: Dataset, before: Dataset, components: Indices) -> Indices:
    """[N] of each row the component of the row that it was before its pictures were made smaller; -1 where it was none.

    Args:
        components: of the rows of `before`.
    """
    ids, parents = (leading(column) for column in dataset.table("examples", ["example_id", "parent_id"]).columns)
    known, first = np.unique(leading(before.table("examples", ["example_id"])["example_id"]), return_index=True)
    # Changed rows name what they were as their parent; the others are called as they were.
    of_parents, own = (look_up(keys, known, components[first]) for keys in (parents, ids))
    return np.where(own >= 0, own, of_parents)


_SELECTING = frozenset({"decontaminate", "select"})
_CHANGE_ALONE = frozenset({"dedup", "shrink"})
"""Stages that write one row for one of their input."""


def changed_alone(dataset: Dataset, shards: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """[n] whether a row lies in a shard of dedup or shrink: what its parent_id names is the row itself, before."""
    wrote = np.array([ref.holder.stage in _CHANGE_ALONE for ref in dataset.shards] or [False], np.bool_)
    return wrote[shards]
