"""`shardkit explain`: why a row went or stayed, read from the tables that the stages left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardkit.errors import ConfigError
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.index import Index
from shardkit.prepare.lineage.left_out import last_left_out
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings

_PLACE = ("example_id", "input", "position", "group", "source", "shard", "row", "parent_id")
_SHORTEST = 8


def explain(
    path: Path, example_id: str, *, bases: Sequence[Path] = (), remote: RemoteSettings | None = None
) -> dict[str, Any]:
    """Everything that a dataset knows of an example, by its id or the unique beginning of one.

    Returns:
        example_id, outcome (kept, changed, or the reason it was left out), detail (a sentence or None), left_out_by (stage,
        dataset and id of the stage that left it out, this or an earlier one; else None), places (input and position,
        shard and row, in this dataset or in those that it was made from), links (rows of the tables lineage.index.LINKS
        of that stage, else of this dataset, that name it).

    Raises:
        ConfigError: where no row has the id, or several do with that beginning.
    """
    dataset = Dataset.open(path, base=bases, remote=remote)
    own = Index(dataset)
    holders = {shard.holder.id: shard.holder for shard in dataset.shards if shard.holder.id != dataset.id}
    indices = [own, *map(Index, holders.values())]
    full = _full_id(indices, example_id) or _full_id(Ancestry(dataset).indices, example_id)
    if full is None:
        raise ConfigError(
            f"no example has the id {example_id}, here or in what this dataset was made from",
            where=dataset.where,
            hint="`shardkit trace DATASET --source FILE:ROW` follows a raw row; --base says where earlier stages are",
        )
    here, *others = [index.examples.take(index.examples_of(full), _PLACE) for index in indices]
    changed = own.example_ids(own.children_of(full))
    gone = None if here or changed else last_left_out(Ancestry(dataset), full)
    by, excluded = gone or (own, None)
    return {
        "dataset": dataset.where,
        "stage": dataset.stage,
        "example_id": full,
        "outcome": "kept" if here else "changed" if changed else (excluded or {}).get("reason", "unknown"),
        "detail": None if here else _stays_as(changed) if changed else (excluded or {}).get("detail"),
        "left_out_by": excluded and {"stage": by.dataset.stage, "dataset": by.dataset.place, "id": by.dataset.id},
        "places": here or [place for places in others for place in places],
        "links": by.links_of(full),
    }


def _stays_as(ids: Sequence[str]) -> str:
    return f"its content was changed, and it stays as {', '.join(sorted(set(ids)))}"


def _full_id(indices: Sequence[Index], given: str) -> str | None:
    """The whole id that begins with these digits; None where there is none.

    Raises:
        ConfigError: where they are no digits of an id, or there are several.
    """
    where = indices[0].dataset.where
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
    return found.pop() if found else None
