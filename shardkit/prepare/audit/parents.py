"""What rows inherit from what they were made from: two crops of two pages of one book are of one book.

The split names the datasets that hold the parents; their columns are read as they stand there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shardkit.engine import map_ordered
from shardkit.errors import IntegrityError
from shardkit.prepare.audit.sides import KINDS, Indices, Side, groups_by, value_bits
from shardkit.prepare.dedup.inputs import Slice, as_int32, facts_of, slices
from shardkit.prepare.dedup.keys import Keys, dense
from shardkit.prepare.split.declared import by_path
from shardkit.store.dataset import Dataset


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inherited:
    """M values of parents."""

    parents: Keys
    """[M, 2] example id"""
    kinds: npt.NDArray[np.int8]
    """[M] index into KINDS"""
    values: Keys
    """[M, 2]"""


def parents_of(splits: Sequence[Dataset]) -> tuple[list[Dataset], list[str]]:
    """The datasets that hold what rows were made from; a sentence for each that cannot be found."""
    found: dict[str, Dataset] = {}
    lost = []
    for split in splits:
        for dataset_id in split.recipe.get("parents", ()):
            try:
                found[dataset_id] = split.holder(dataset_id)
            except IntegrityError:
                lost.append(
                    f"groups of parents were not looked at: the dataset {dataset_id} that holds them is not at hand; say where "
                    "with --base"
                )
    return list(found.values()), lost


def inherited(
    datasets: Sequence[Dataset],
    sides: Sequence[Side],
    *,
    keys: Sequence[str | None],
    bases: tuple[Path, ...],
    workers: int,
) -> Iterator[Side]:
    """What children have from their parents, as if it were their own.

    Args:
        keys: declared keys that are looked at.
    """
    wanted = np.unique(np.concatenate([np.empty(0, np.uint64), *(side.made[:, 0] for side in sides)]))
    parts = [
        part
        for dataset in datasets
        for part in map_ordered(partial(_read, tuple(keys), wanted), _jobs(dataset, keys, bases), workers=workers)
    ]
    if not parts:
        return
    parents, kinds, values = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("parents", "kinds", "values")
    )
    for side in sides:
        if len(side.made):
            numbers = dense(np.concatenate([parents, side.made]))
            known, own = numbers[: len(parents)], numbers[len(parents) :]
            child, value = _joined(own, known)
            yield replace(
                side,
                num_rows=0,
                kinds=kinds[value],
                values=values[value],
                rows=side.made_rows[child],
                faults=[],
                changed=[],
            )


_Job = tuple[Slice, list[dict[str, str]]]
"""Rows, and input and position of each, where a key comes from the path."""


def _jobs(dataset: Dataset, keys: Sequence[str | None], bases: tuple[Path, ...]) -> Iterator[_Job]:
    with_path = any(key is not None and by_path(key) for key in keys)
    names = ["input", "position"] if with_path else []
    table = dataset.table("examples", ["shard_index", "row", *names])
    places = table.select(names)
    positions = np.arange(table.num_rows)
    for piece in slices(dataset, bases, as_int32(table["shard_index"]), as_int32(table["row"]), positions):
        yield piece, places.take(piece.positions).to_pylist() if with_path else [{}] * len(piece.rows)


def _read(keys: tuple[str | None, ...], wanted: Keys, job: _Job) -> Inherited:
    """Values of the rows that something was made from; run by a worker."""
    piece, places = job
    parents: list[tuple[int, int]] = []
    kinds: list[int] = []
    values: list[tuple[int, int]] = []
    known = set(wanted.tolist())
    for facts, place in zip(facts_of(piece), places, strict=True):
        own = value_bits("parent", facts.example_id)
        if own[0] not in known:
            continue
        found = {("asset", one) for one in facts.assets} | {("pixel", one) for one in facts.pixels}
        found |= {("group", group) for group in groups_by(keys, facts, place)}
        if facts.text:
            found.add(("text", facts.text))
        parents += [own] * len(found)
        kinds += [KINDS.index(kind) for kind, _ in found]
        values += [value_bits(kind, value) for kind, value in found]
    return Inherited(
        parents=np.array(parents, np.uint64).reshape(-1, 2),
        kinds=np.array(kinds, np.int8),
        values=np.array(values, np.uint64).reshape(-1, 2),
    )


def _joined(left: Indices, right: Indices) -> tuple[Indices, Indices]:
    """Each pair of places with equal values."""
    order = np.argsort(right, kind="stable")
    begin = np.searchsorted(right[order], left)
    size = np.searchsorted(right[order], left, side="right") - begin
    one = np.repeat(np.arange(len(left)), size)
    within = np.arange(len(one)) - np.repeat(np.cumsum(size) - size, size)
    return one, order[np.repeat(begin, size) + within]
