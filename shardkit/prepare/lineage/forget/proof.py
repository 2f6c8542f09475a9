"""The proof: the output is read again, shard by shard and table by table, and nothing that was forgotten may be in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.digest import xxh3
from shardkit.engine import Progress, map_ordered
from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.keys import Keys, leading
from shardkit.prepare.lineage.forget.decide import Decision
from shardkit.prepare.lineage.index import LINKS
from shardkit.prepare.split.sequences import read_sequences
from shardkit.store.dataset import Dataset
from shardkit.store.sequences import is_tokenized

_ROWS = 1024
"""Rows of a shard whose ids are looked at together."""
_COLUMNS = {
    "examples": ("example_id", "parent_id"),
    "provenance": ("example_id", "asset_id"),
    "assets": ("asset_id",),
    "groups": ("example_id",),
    **LINKS,
}
"""Table -> its columns of ids; parent_id names what an example was made from."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Forgotten:
    """What may not be found."""

    examples: Keys
    """First 64 bits of their ids, ascending."""
    assets: Keys
    stored: frozenset[str]
    """xxh3-128 of bytes."""
    sequences: Keys
    """First 64 bits of their ids, ascending."""

    @classmethod
    def of(cls, decision: Decision, sequences: Keys) -> Forgotten:
        return cls(
            examples=decision.gone_ids,
            assets=np.union1d(decision.gone_assets, decision.named),
            stored=frozenset(decision.stored),
            sequences=sequences,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    shard: str
    rows: int
    images: int
    num_bytes: int
    found: str
    """The first thing that should not be here, or nothing."""


def prove(
    dataset: Dataset, forgotten: Forgotten, again: Decision, *, workers: int, on_progress: Progress
) -> dict[str, int]:
    """Search a dataset for what was forgotten.

    Args:
        again: what the same criteria find in it: nothing, or the proof fails.

    Returns:
        examples, images and bytes that were read and digested, rows of tables that were searched; sequences, of a
        tokenized dataset, that were read and followed to their examples.

    Raises:
        IntegrityError: naming the first thing that is still there.
    """
    if again.num_found:
        raise _still(f"{again.num_found} examples and origins still answer to what was to be forgotten", dataset)
    sums = {"examples": 0, "images": 0, "bytes": 0, "rows": 0}
    jobs = range(len(dataset.shards))
    work = partial(_search, dataset.path, dataset.id, forgotten)
    try:
        for done, seen in enumerate(map_ordered(work, jobs, workers=workers), 1):
            if seen.found:
                raise _still(f"{seen.shard} holds {seen.found}", dataset)
            sums["examples"] += seen.rows
            sums["images"] += seen.images
            sums["bytes"] += seen.num_bytes
            on_progress(done, len(jobs), "proving")
    finally:
        _opened.cache_clear()
    if is_tokenized(dataset):
        sums["sequences"] = _search_sequences(dataset, forgotten)
    for name, columns in _COLUMNS.items():
        if dataset.has_table(name):
            table = dataset.table(name, columns)
            sums["rows"] += table.num_rows
            for column in columns:
                wanted = forgotten.assets if column == "asset_id" else forgotten.examples
                if np.isin(leading(table[column]), wanted[wanted != 0]).any():
                    raise _still(f"the table {name} names a forgotten id in {column}", dataset)
    return sums


def _search_sequences(dataset: Dataset, forgotten: Forgotten) -> int:
    """How many there are. Each leads to the example that it names, and that is here; that was searched already."""
    keys = np.asarray(dataset.table("lengths", ["key"])["key"].to_numpy(), np.uint64)
    if np.isin(keys, forgotten.sequences).any():
        raise _still("the table lengths names a forgotten sequence", dataset)
    for shard in dataset.sequence_shards:
        reader = dataset.sequence_reader(shard)
        table = reader.table()  # all columns, so that every block is compared with its digest
        reader.close()
        if np.isin(leading(table["sequence_id"]), forgotten.sequences).any():
            raise _still(f"{shard.name} holds a forgotten sequence", dataset)
        if np.isin(leading(table["example_id"]), forgotten.examples).any():
            raise _still(f"{shard.name} holds a sequence of a forgotten example", dataset)
    read_sequences(dataset, dataset)
    return len(keys)


def _still(what: str, dataset: Dataset) -> IntegrityError:
    return IntegrityError(
        f"the proof failed: {what}",
        where=str(dataset.path),
        hint="do not use this dataset: remove it, check the input with `shardkit verify --deep`, and forget again",
    )


def _search(path: Path, dataset_id: str, forgotten: Forgotten, number: int) -> _Seen:
    """Read a shard with all checks, and digest every picture again; run by a worker."""
    dataset = _opened(path, dataset_id)
    shard = dataset.shards[number]
    reader = dataset.reader(shard)
    found = ""
    num_images = num_bytes = 0
    for start in range(0, reader.num_rows, _ROWS):
        rows = range(start, min(start + _ROWS, reader.num_rows))
        table = reader.columns(("example_id", "images"), rows=rows).combine_chunks()
        if np.isin(leading(table["example_id"]), forgotten.examples).any():
            found = found or f"a forgotten example in its rows {rows[0]} to {rows[-1]}"
        images = table["images"].chunk(0)
        shown = pa.chunked_array([images.flatten().field("asset_id")])
        if np.isin(leading(shown), forgotten.assets).any():
            found = found or f"a forgotten picture in its rows {rows[0]} to {rows[-1]}"
        for row, count in zip(rows, pc.list_value_length(images).to_pylist(), strict=True):
            for place in range(count):
                data = reader.image_bytes(row, place)
                num_images += 1
                num_bytes += len(data)
                if xxh3(data) in forgotten.stored:
                    found = found or f"a forgotten picture in row {row}"
    reader.close()
    return _Seen(shard=shard.name, rows=shard.num_rows, images=num_images, num_bytes=num_bytes, found=found)


@lru_cache(maxsize=1)
def _opened(path: Path, dataset_id: str) -> Dataset:
    dataset = Dataset.open(path)
    assert dataset.id == dataset_id, "the output was replaced during the proof"
    return dataset
