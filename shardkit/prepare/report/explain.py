"""`shardkit explain`: why a row went or stayed, read from the tables that the stages left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ConfigError
from shardkit.store.dataset import Dataset

_PLACE = ("example_id", "input", "position", "group", "source", "shard", "row", "parent_id")
_LINKS = {
    "edges": ("kept_id", "removed_id"),
    "near": ("example_id", "other_id"),
    "evidence": ("example_id",),
    "lines": ("example_id", "parent_id"),
    "moved": ("example_id", "parent_id", "from_id"),
}
"""Table -> its columns of ids; rows of these tables say what the example has to do with another, or with a benchmark, and what
changed in it."""
_SHORTEST = 8


def explain(path: Path, example_id: str, *, bases: Sequence[Path] = ()) -> dict[str, Any]:
    """Everything that a dataset knows of an example, by its id or the unique beginning of one.

    Returns:
        example_id, outcome (kept, changed, or the reason it was left out), detail (a sentence or None), places (input and
        position, shard and row, in this dataset and in those whose shards it refers to), links (rows of the tables
        of _LINKS that name it; `id` and `other` say which side it is on).

    Raises:
        ConfigError: where no row has the id, or several do with that beginning.
    """
    dataset = Dataset.open(path, base=bases)
    holders = {shard.holder.id: shard.holder for shard in dataset.shards if shard.holder.id != dataset.id}
    full = _full_id([dataset, *holders.values()], example_id, path)
    here = _places(dataset, full)
    there = [place for holder in holders.values() for place in _places(holder, full)]
    links = [link for name in _LINKS if dataset.has_table(name) for link in _links(dataset, name, full)]
    after = _changed_to(dataset, full)
    excluded = None
    if not here and not after:
        excluded = _exclusion(dataset, {(place["input"], place["position"]) for place in there})
    return {
        "dataset": str(path),
        "stage": dataset.stage,
        "example_id": full,
        "outcome": "kept" if here else "changed" if after else (excluded or {}).get("reason", "unknown"),
        "detail": None if here else _went_on(after) if after else (excluded or {}).get("detail"),
        "places": here or there,
        "links": links,
    }


def _full_id(datasets: Sequence[Dataset], given: str, path: Path) -> str:
    wanted = given.strip().lower()
    if len(wanted) < _SHORTEST or not all(sign in "0123456789abcdef" for sign in wanted):
        raise ConfigError(
            f"{given!r} is no example id, nor {_SHORTEST} or more digits of one",
            where=str(path),
            hint="`shardkit head` shows ids",
        )
    found: set[str] = set()
    for dataset in datasets:
        ids = dataset.table("examples", ["example_id"])["example_id"]
        found.update(ids.filter(pc.starts_with(ids, wanted)).unique().to_pylist())
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} examples have ids that begin with {wanted}", where=str(path), hint="give more digits"
        )
    if not found:
        raise ConfigError(
            f"no example has the id {wanted}, here or in the datasets whose shards this one refers to",
            where=str(path),
            hint="name the dataset of an earlier stage; a row that was never taken in is in its exclusions.jsonl.zst",
        )
    return found.pop()


def _places(dataset: Dataset, example_id: str) -> list[dict[str, Any]]:
    table = dataset.table("examples", list(_PLACE))
    return list(table.filter(pc.equal(table["example_id"], example_id)).to_pylist())


def _changed_to(dataset: Dataset, example_id: str) -> list[str]:
    """Ids of the examples that were made from it."""
    table = dataset.table("examples", ["example_id", "parent_id"])
    found = table.filter(pc.fill_null(pc.equal(table["parent_id"], example_id), False))["example_id"]
    return sorted(found.unique().to_pylist())


def _went_on(ids: Sequence[str]) -> str:
    return f"its content was changed, and it stays as {', '.join(ids)}"


def _links(dataset: Dataset, name: str, example_id: str) -> Iterator[dict[str, Any]]:
    table = dataset.table(name)
    named = pa.array([False] * table.num_rows, pa.bool_())
    for column in _LINKS[name]:
        named = pc.or_(named, pc.fill_null(pc.equal(table[column], example_id), False))
    for row in table.filter(named).to_pylist():
        yield {"table": name, **row}


def _exclusion(dataset: Dataset, places: set[tuple[str, str]]) -> dict[str, Any] | None:
    for line in dataset.exclusions():
        row = orjson.loads(line)
        if (row["input"], row["position"]) in places:
            return dict(row)
    return None
