"""The rows of a split under one numbering, and what ties them.

0 .. num_own-1     rows that are split, in the order of the input
then               removed duplicates of the input: they go nowhere, but tie what they resemble
then               rows of the older split (--like): they stay where they are, and tie in the same way
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shardkit.digest import mix64
from shardkit.engine import Progress, map_ordered
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import Slice, as_int32, slices
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.dedup.names import Names, coded
from shardkit.prepare.split.config import SplitConfig
from shardkit.prepare.split.declared import by_path, path_key
from shardkit.prepare.split.ties import KINDS, Tied, tie_bits, tie_slice
from shardkit.sequence.plan.order import mix64_array
from shardkit.store.dataset import Dataset

_COLUMNS = (
    "example_id", "shard_index", "row", "input", "position", "group", "parent_id", "has_email", "has_phone",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rows:
    """N rows, of which the first `num_own` are split."""

    num_own: int
    ids: Keys
    """[N] first 64 bits of the example id."""
    parents: Keys
    """[N] the same of the example that the row was made from; 0 for none."""
    declared: Indices
    """[N] index into `names`, -1 where the source declares nothing."""
    names: tuple[str, ...]
    keys: Keys
    """[N] 64 bits of the declared key, or of the example id where there is none: what the ledger goes by."""
    sources: npt.NDArray[np.int32]
    """[N] index into `source_names`."""
    source_names: tuple[str, ...]
    sizes: npt.NDArray[np.int64]
    """[N] payload bytes."""
    value_rows: Indices
    values: Keys
    """[M] each: row and value of everything that ties, see `ties.py`."""
    near: tuple[Indices, Indices]
    """[E] each: rows that dedup found near."""
    near_pictures: npt.NDArray[np.bool_]
    """[E] whether only their pictures are; their texts are others."""
    joined: Indices
    """[N] component that an earlier split of the very input gave the row, as a number; -1 where there is none."""
    permitted: Keys
    """Values that the earlier split found too frequent to tie."""
    examples: pa.Table
    """tables/examples of the rows that are split, without shard and source."""
    slices: tuple[Slice, ...]
    """Where the rows lie."""

    def __len__(self) -> int:
        return len(self.ids)


def read_rows(dataset: Dataset, old: Dataset | None, config: SplitConfig, on_progress: Progress) -> Rows:
    """Read everything that a split is decided from; images stay closed."""
    own = dataset.table("examples", _COLUMNS)
    removed = _removed(dataset)
    tables = [own, removed, old.table("examples", _COLUMNS) if old else own.slice(0, 0)]
    num = [table.num_rows for table in tables]
    shards = [as_int32(table["shard_index"]) for table in tables]
    rows = [as_int32(table["row"]) for table in tables]
    here = slice(0, num[0] + num[1])
    positions = np.arange(sum(num))
    pieces = [*slices(dataset, config.bases, np.concatenate(shards[:2]), np.concatenate(rows[:2]), positions[here])]
    if old:
        pieces += slices(old, config.bases, shards[2], rows[2], positions[here.stop :])
    declared, sources = Names(sum(num)), Names(sum(num))
    sizes = np.zeros(sum(num), np.int64)
    value_rows, values = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for part in _read(pieces, config, on_progress):
        declared.put(part.positions, *part.declared)
        sources.put(part.positions, *part.sources)
        sizes[part.positions] = part.sizes
        value_rows.append(part.value_rows)
        values.append(part.values)
    if config.group_by is not None and by_path(config.group_by):
        places = [own, _places(dataset, removed), tables[2]]
        declared.put(slice(None), *coded(key for table in places for key in _path_keys(config.group_by, table)))
    ids = np.concatenate([leading(table["example_id"]) for table in tables])
    near, near_pictures = _near(dataset, ids[here])
    codes, names = declared.sorted()
    source_codes, source_names = sources.sorted()
    return Rows(
        num_own=num[0],
        ids=ids,
        parents=np.concatenate(
            [leading(own["parent_id"]), np.zeros(num[1], np.uint64), leading(tables[2]["parent_id"])]
        ),
        declared=codes,
        names=names,
        keys=np.where(codes < 0, example_keys(ids), group_keys(names)[codes] if names else np.uint64(0)),
        sources=source_codes.astype(np.int32),
        source_names=source_names,
        sizes=sizes,
        value_rows=np.concatenate(value_rows),
        values=np.concatenate(values),
        near=near,
        near_pictures=near_pictures,
        joined=np.concatenate([_joined(dataset, num[0]), np.full(num[1] + num[2], -1)]),
        permitted=_permitted(dataset),
        examples=own,
        slices=tuple(pieces),
    )


def group_keys(names: tuple[str, ...] | list[str]) -> Keys:
    """64 bits of declared keys."""
    return np.array([xxhash.xxh3_64_intdigest(b"group\0" + name.encode()) for name in names], np.uint64)


def example_keys(ids: Keys) -> Keys:
    """64 bits of example ids as keys; they differ from those of groups of the same name."""
    return mix64_array(mix64("example"), ids)


def _read(pieces: list[Slice], config: SplitConfig, on_progress: Progress) -> Iterator[Tied]:
    parts = map_ordered(partial(tie_slice, config.group_by), pieces, workers=config.workers)
    for done, part in enumerate(parts, 1):
        on_progress(done, len(pieces), "reading")
        yield part


def _removed(dataset: Dataset) -> pa.Table:
    """Rows that the input left out as duplicates; none where it is no output of dedup."""
    columns = ["example_id", "shard_index", "row"]
    if not dataset.has_table("clusters"):
        return dataset.table("examples", columns).slice(0, 0)
    table = dataset.table("clusters", [*columns, "kept"])
    return table.filter(pc.invert(table["kept"]))


def _near(dataset: Dataset, ids: Keys) -> tuple[tuple[Indices, Indices], npt.NDArray[np.bool_]]:
    """Pairs of rows, removed or not, that the input's dedup found near but not equal; equal ones tie by their values."""
    if not dataset.has_table("edges"):
        return (np.empty(0, np.int64), np.empty(0, np.int64)), np.empty(0, np.bool_)
    table = dataset.table("edges", ["level", "score", "kept_id", "removed_id"])
    table = table.filter(pc.less(table["score"], 1.0))
    order = np.argsort(ids, kind="stable")
    found = []
    for column in ("kept_id", "removed_id"):
        wanted = leading(table[column])
        at = np.minimum(np.searchsorted(ids[order], wanted), max(len(ids) - 1, 0))
        found.append(np.where(ids[order][at] == wanted, order[at], -1) if len(ids) else np.full(len(wanted), -1))
    # A keeper may lie in a reference dataset, which is not split here.
    both = (found[0] >= 0) & (found[1] >= 0)
    pictures = np.asarray(pc.equal(table["level"], "image").to_numpy(zero_copy_only=False), np.bool_)
    return (found[0][both], found[1][both]), pictures[both]


def _joined(dataset: Dataset, num_rows: int) -> Indices:
    """What removed rows tied when the input was split from them: they are not at hand any more."""
    if not dataset.has_table("groups"):
        return np.full(num_rows, -1)
    return coded(dataset.table("groups", ["component"])["component"].to_pylist())[1]


def _permitted(dataset: Dataset) -> Keys:
    if not dataset.has_table("boilerplate"):
        return np.empty(0, np.uint64)
    table = dataset.table("boilerplate", ["kind", "value"])
    levels = {kind: level for level, kind in KINDS.items()}
    pairs = zip(table["kind"].to_pylist(), table["value"].to_pylist(), strict=True)
    return np.array([tie_bits(levels[kind], value) for kind, value in pairs], np.uint64)


def _places(dataset: Dataset, removed: pa.Table) -> pa.Table:
    """input and position of removed rows, from the datasets that hold their shards."""
    names = ["input", "position"]
    found = {name: np.full(removed.num_rows, None, object) for name in names}
    shards, rows = as_int32(removed["shard_index"]), as_int32(removed["row"])
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


def _path_keys(group_by: str, table: pa.Table) -> Iterator[str | None]:
    key = path_key(group_by)
    for name, position in zip(table["input"].to_pylist(), table["position"].to_pylist(), strict=True):
        yield key(name, position)
