"""verify --deep: every row against its bytes, and every image against its provenance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from shardkit.engine import Progress, map_ordered
from shardkit.errors import IntegrityError
from shardkit.prepare.audit.images import differences, look
from shardkit.prepare.audit.removal import unexplained
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, asset_key, asset_keys
from shardkit.records import example_id
from shardkit.store.dataset import Dataset
from shardkit.store.schema import PROVENANCE

_PROVENANCE = "provenance/provenance.parquet"
_ALWAYS = ("source", "digest", "decoder", "preprocessing", "derived_recipe")
"""Fields of provenance that every image has; the others are null where nobody stated them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Job:
    dataset: Path
    bases: tuple[Path, ...]
    shard: int
    rows: npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Seen:
    problems: list[str]
    assets: Keys
    """Keys of the images, each once."""
    changed: list[tuple[int, str]]
    """(asset key, where) of images whose stored bytes are not the original."""


def deep_problems(
    dataset: Dataset, bad: set[Path], *, bases: tuple[Path, ...], workers: int, on_progress: Progress
) -> Iterator[str]:
    """`shard:row: what` for everything that does not fit.

    Args:
        bad: files that are damaged already; their rows are not looked at.
    """
    if dataset.path / "tables/examples.parquet" in bad:
        return
    table = dataset.table("examples", ["shard_index", "row"])
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    jobs = [
        _Job(dataset=dataset.path, bases=bases, shard=shard.index, rows=rows[shards == shard.index])
        for shard in dataset.shards
        if shard.path not in bad and (shards == shard.index).any()
    ]
    assets: list[Keys] = [np.empty(0, np.uint64)]
    changed: dict[int, str] = {}
    try:
        for done, seen in enumerate(map_ordered(_look_through, jobs, workers=workers), 1):
            yield from seen.problems
            assets.append(seen.assets)
            changed.update(seen.changed)
            on_progress(done, len(jobs), "rows")
    finally:
        _dataset.cache_clear()
    if dataset.path / _PROVENANCE not in bad:
        yield from _provenance_problems(dataset, np.unique(np.concatenate(assets)), changed)


def _look_through(job: _Job) -> _Seen:
    """Read rows of a shard with all checks; run by a worker."""
    dataset = _dataset(job.dataset, job.bases)
    shard = dataset.shards[job.shard]
    seen = _Seen(problems=[], assets=np.empty(0, np.uint64), changed=[])
    assets: set[int] = set()
    try:
        reader = dataset.reader(shard)
        for row in job.rows.tolist():
            example = reader.example(row)
            where = f"{shard.name}:{row}"
            found = example_id(example)
            if found != example.example_id:
                seen.problems.append(
                    f"{where}: the content gives the example id {found}, the row says {example.example_id}"
                )
            for number, image in enumerate(example.images):
                facts = look(image.data)
                wrong = differences(facts, stored_xxh3=image.stored_xxh3, pixel=image.pixel_id)
                seen.problems.extend(f"{where} image {number}: {what}" for what in wrong)
                if not image.asset_id:
                    seen.problems.append(f"{where} image {number}: it has no asset id")
                    continue
                key = asset_key(image.asset_id, image.frame)
                assets.add(key)
                if facts.sha256 != image.asset_id:
                    seen.changed.append((key, f"{where} image {number}"))
    except IntegrityError as error:
        seen.problems.append(f"{shard.name}: {error.what}")
    return _Seen(problems=seen.problems, assets=np.array(sorted(assets), np.uint64), changed=seen.changed)


def _provenance_problems(dataset: Dataset, assets: Keys, changed: dict[int, str]) -> Iterator[str]:
    table = dataset.table("provenance")
    if table.schema.names != PROVENANCE.names:
        yield f"{_PROVENANCE}: its columns are not the seven fields"
        return
    images = table.filter(pc.is_valid(table["asset_id"]))
    missing = len(np.setdiff1d(assets, asset_keys(images)))
    if missing:
        yield f"{_PROVENANCE}: {missing} images have no row"
    for name in _ALWAYS:
        nulls = images[name].null_count
        if nulls:
            yield f"{_PROVENANCE}: {name} is null for {nulls} images"
    yield from unexplained(dataset, changed)


@lru_cache(maxsize=1)
def _dataset(path: Path, bases: tuple[Path, ...]) -> Dataset:
    return Dataset.open(path, base=bases)
