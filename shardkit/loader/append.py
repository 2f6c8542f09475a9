"""Appends: a dataset that holds every shard of sequences of another one, and others besides.

A state carries a mark of every shard that was bound, so that it can be told, without the old dataset, where its shards
stand among those of a new one.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from shardkit.digest import xxh3
from shardkit.sequence.plan.after import expand as expand  # noqa: PLC0414 - the other half of runs_of
from shardkit.store.dataset import Dataset

MAX_SHARDS = 1500
"""That a state has marks of: 12 KiB. Appends to more need the dataset itself, where the new one says that it is."""
_MARK_BYTES = 6

Places = list[int]
"""For each shard that was bound its place in the list of the dataset here."""


def marks(dataset: Dataset) -> dict[str, Any]:
    """What a state says of the shards of sequences: how many, a digest of all, and a short mark of each."""
    names = _names(dataset)
    short = None if len(names) > MAX_SHARDS else base64.b64encode(b"".join(map(_short, names))).decode()
    return {"number": len(names), "digest": xxh3("\n".join(names).encode()), "marks": short}


def places_in(dataset: Dataset, saved: Mapping[str, Any], bound: str) -> Places | None:
    """Where the shards that were bound stand here; None where one is not here.

    Args:
        saved: what `marks` said of them.
        bound: the id of the dataset that was bound.
    """
    names = _names(dataset)
    if saved["marks"] is None:
        before = dataset.find(bound)
        wanted = [] if before is None else list(map(_short, _names(before)))
    else:
        data = base64.b64decode(saved["marks"])
        wanted = [data[start : start + _MARK_BYTES] for start in range(0, len(data), _MARK_BYTES)]
    here: dict[bytes, list[int]] = {}
    for place, name in reversed(list(enumerate(names))):
        here.setdefault(_short(name), []).append(place)
    places = [here[mark].pop() for mark in wanted if here.get(mark)]
    # The digest of the whole names: short marks only find, they prove nothing.
    if len(places) != saved["number"] or xxh3("\n".join(names[at] for at in places).encode()) != saved["digest"]:
        return None
    return places


def runs_of(places: Sequence[int]) -> list[list[int]]:
    """[first, number] of each run of places that follow one another."""
    breaks = [0, *(at for at, (one, other) in enumerate(pairwise(places), 1) if other != one + 1), len(places)]
    return [[places[start], stop - start] for start, stop in pairwise(breaks)] if places else []


def _names(dataset: Dataset) -> list[str]:
    return [f"{shard.entry.xxh3} {shard.split}" for shard in dataset.sequence_shards]


def _short(name: str) -> bytes:
    return bytes.fromhex(xxh3(name.encode()))[:_MARK_BYTES]
