"""What a worker finds in one shard of a split: values that may stand on one side only, from the bytes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from shardkit.prepare.audit.images import differences, look
from shardkit.prepare.dedup.facts import Facts, read_facts
from shardkit.prepare.dedup.keys import Keys, asset_key, words
from shardkit.prepare.split.declared import by_path, fact_key, path_key
from shardkit.store.dataset import Dataset
from shardkit.store.whole import open_whole

KINDS = ("asset", "pixel", "text", "group", "parent")
"""What may not stand on two sides. parent: an example and those made from it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    dataset: Path
    bases: tuple[Path, ...]
    shard: int
    rows: npt.NDArray[np.int32] | None
    """Rows of a view's shard that are selected; None for all."""
    group_by: str | None
    places: pa.Table
    """row, input, position, parent_id of the shard's rows, as tables/examples has them."""

    def place_of(self) -> dict[int, dict[str, str]]:
        """Row -> input, position, parent_id."""
        return {place.pop("row"): place for place in self.places.to_pylist()}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Side:
    """M values of one shard."""

    shard: int
    num_rows: int
    kinds: npt.NDArray[np.int8]
    """[M] index into KINDS."""
    values: Keys
    """[M, 2] 128 bits of the value."""
    rows: npt.NDArray[np.int32]
    """[M]"""
    faults: list[str]
    """What rows say and bytes do not."""
    changed: list[tuple[int, str]]
    """(asset key, where) of images whose stored bytes are not the original: metadata was removed, or the id is wrong."""


def value_bits(kind: str, value: str) -> tuple[int, int]:
    """128 bits of a value: of ids their own, of texts and groups a digest."""
    if kind in ("text", "group"):
        number = xxhash.xxh3_128_intdigest(value.encode())
        return number >> 64, number & 0xFFFFFFFFFFFFFFFF
    pair = words([value[:32]], 2)[0]
    return int(pair[0]), int(pair[1])


def examine(job: Job) -> Side:
    """Read a shard whole; run by a worker.

    Raises:
        IntegrityError: where the file is not the one that the manifest names.
    """
    dataset = _dataset(job.dataset, job.bases)
    shard = dataset.shards[job.shard]
    reader = open_whole(shard)
    rows = np.arange(reader.num_rows, dtype=np.int32) if job.rows is None else job.rows
    places = job.place_of()
    kinds: list[int] = []
    values: list[tuple[int, int]] = []
    of_row: list[int] = []
    faults: list[str] = []
    changed: list[tuple[int, str]] = []
    for row, facts in zip(rows.tolist(), read_facts(reader, job.rows), strict=True):
        where = f"{shard.name}:{row}"
        pixels = []
        for number, (asset, frame) in enumerate(zip(facts.assets, facts.frames, strict=True)):
            seen = look(reader.image_bytes(row, number))
            wrong = differences(seen, stored_xxh3=facts.stored[number], pixel=facts.pixels[number])
            faults += [f"{where} image {number}: {what}" for what in wrong]
            if seen.sha256 != asset:
                changed.append((asset_key(asset, frame), f"{where} image {number}"))
            pixels.append(seen.pixel_id or facts.pixels[number])
        found = {("asset", asset) for asset in facts.assets} | {("pixel", pixel) for pixel in pixels}
        if facts.text:
            found.add(("text", facts.text))
        place = places.get(row, {})
        found |= {("group", group) for group in groups_of(job.group_by, facts, place)}
        found.add(("parent", facts.example_id))
        if place.get("parent_id"):
            found.add(("parent", place["parent_id"]))
        kinds += [KINDS.index(kind) for kind, _ in found]
        values += [value_bits(kind, value) for kind, value in found]
        of_row += [row] * len(found)
    reader.close()
    return Side(
        shard=job.shard,
        num_rows=len(rows),
        kinds=np.array(kinds, np.int8),
        values=np.array(values, np.uint64).reshape(-1, 2),
        rows=np.array(of_row, np.int32),
        faults=faults,
        changed=changed,
    )


def groups_of(group_by: str | None, facts: Facts, place: Mapping[str, str]) -> set[str]:
    """The declared key, from the row itself or from its raw place, and what stands in the group column."""
    if group_by is not None and by_path(group_by):
        declared = path_key(group_by)(place["input"], place["position"]) if place else None
    else:
        declared = fact_key(group_by)(facts)
    return {group for group in (declared, fact_key(None)(facts)) if group}


@lru_cache(maxsize=8)
def _dataset(path: Path, bases: tuple[Path, ...]) -> Dataset:
    return Dataset.open(path, base=bases, check_id=False)


def forget() -> None:
    """Close what this process keeps open between shards."""
    _dataset.cache_clear()
