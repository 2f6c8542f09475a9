"""`shardkit explain`: why a row went or stayed, read from the tables that the stages left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.lineage.exclusions import exclusions_of
from shardkit.prepare.lineage.index import Index
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings

_PLACE = ("example_id", "input", "position", "group", "source", "shard", "row", "parent_id")
_SHORTEST = 8


def explain(
    path: Path, example_id: str, *, bases: Sequence[Path] = (), remote: RemoteSettings | None = None
) -> dict[str, Any]:
    """Everything that a dataset knows of an example, by its id or the unique beginning of one.

    Returns:
        example_id, outcome (kept, changed, or the reason it was left out), detail (a sentence or None), places (input and
        position, shard and row, in this dataset and in those whose shards it refers to), links (rows of the tables
        lineage.index.LINKS that name it).

    Raises:
        ConfigError: where no row has the id, or several do with that beginning.
    """
    dataset = Dataset.open(path, base=bases, remote=remote)
    own = Index(dataset)
    holders = {shard.holder.id: shard.holder for shard in dataset.shards if shard.holder.id != dataset.id}
    indices = [own, *map(Index, holders.values())]
    full = _full_id(indices, example_id, dataset.where)
    here, *others = [index.examples.take(index.examples_of(full), _PLACE) for index in indices]
    there = [place for places in others for place in places]
    changed = own.example_ids(own.children_of(full))
    excluded = None
    if not here and not changed:
        places = dict.fromkeys((place["input"], place["position"]) for place in there)
        excluded = next(iter(exclusions_of(dataset, places)), None)
    return {
        "dataset": dataset.where,
        "stage": dataset.stage,
        "example_id": full,
        "outcome": "kept" if here else "changed" if changed else (excluded or {}).get("reason", "unknown"),
        "detail": None if here else _stays_as(changed) if changed else (excluded or {}).get("detail"),
        "places": here or there,
        "links": own.links_of(full),
    }


def _stays_as(ids: Sequence[str]) -> str:
    return f"its content was changed, and it stays as {', '.join(sorted(set(ids)))}"


def _full_id(indices: Sequence[Index], given: str, where: str) -> str:
    wanted = given.strip().lower()
    if len(wanted) < _SHORTEST or not all(sign in "0123456789abcdef" for sign in wanted):
        raise ConfigError(
            f"{given!r} is no example id, nor {_SHORTEST} or more digits of one",
            where=where,
            hint="`shardkit head` shows ids",
        )
    found = {one for index in indices for one in index.example_ids(index.examples_of(wanted))}
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} examples have ids that begin with {wanted}", where=where, hint="give more digits"
        )
    if not found:
        raise ConfigError(
            f"no example has the id {wanted}, here or in the datasets whose shards this one refers to",
            where=where,
            hint="name the dataset of an earlier stage; a row that was never taken in is in its exclusions.jsonl.zst",
        )
    return found.pop()
