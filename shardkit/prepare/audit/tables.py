"""Tables against the manifest and against each other: row digests, and counts that must add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import orjson
import xxhash

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.store.dataset import Dataset
from shardkit.store.tables import EXCLUSIONS, row_lines

_EXAMPLES, _ROWS = "tables/examples.parquet", "tables/rows.parquet"


def table_problems(dataset: Dataset, bad: set[Path]) -> Iterator[str]:
    """`file: what` for everything that does not fit.

    Args:
        bad: files that are damaged already; what depends on them is not looked at.
    """
    whole = {entry.path for entry in dataset.manifest.tables if dataset.path / entry.path not in bad}
    yield from _digests(dataset, whole)
    yield from _balance(dataset)
    checks: list[tuple[str, Callable[[Dataset], Iterable[str]]]] = [
        (EXCLUSIONS, _exclusions),
        (_EXAMPLES, _examples),
        (_ROWS, _blocks),
    ]
    for path, check in checks:
        if path in whole:
            yield from (f"{path}: {problem}" for problem in check(dataset))


def _digests(dataset: Dataset, whole: set[str]) -> Iterator[str]:
    for entry in dataset.manifest.tables:
        if entry.path not in whole:
            continue
        lines = (
            dataset.exclusions()
            if entry.path == EXCLUSIONS
            else row_lines(dataset.table(Path(entry.path).stem, as_stored=True))
        )
        digest, rows = xxhash.xxh3_128(), 0
        for line in lines:
            digest.update(line)
            digest.update(b"\n")
            rows += 1
        if rows != entry.rows:
            yield f"{entry.path}: it has {rows} rows, the manifest says {entry.rows}"
        elif digest.hexdigest() != entry.rows_xxh3:
            yield f"{entry.path}: the digest of its rows is {digest.hexdigest()}, the manifest says {entry.rows_xxh3}"


def _balance(dataset: Dataset) -> Iterator[str]:
    counts = dataset.manifest.counts
    if counts["read"] != counts["kept"] + counts["excluded"]:
        yield f"manifest.json: read {counts['read']} is not kept {counts['kept']} + excluded {counts['excluded']}"
    if counts["excluded"] != sum(counts["excluded_by_reason"].values()):
        yield f"manifest.json: the reasons do not add up to {counts['excluded']} excluded rows"


def _exclusions(dataset: Dataset) -> Iterator[str]:
    found = Counter(orjson.loads(line)["reason"] for line in dataset.exclusions())
    stated = dataset.manifest.counts["excluded_by_reason"]
    if found != Counter(stated):
        yield f"it has {dict(sorted(found.items()))}, the manifest counts {stated}"


def _examples(dataset: Dataset) -> Iterator[str]:
    """Own shards are selected whole, in order; of a shard of an input there are at most its rows."""
    table = dataset.table("examples", ["shard_index", "row", "shard"])
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    if table.num_rows != dataset.manifest.counts["kept"]:
        yield f"it has {table.num_rows} rows, {dataset.manifest.counts['kept']} were kept"
    if len(shards) and not (shards.min() >= 0 and shards.max() < len(dataset.shards)):
        yield "it names a shard that is not in the manifest"
        return
    order = np.argsort(shards, kind="stable")
    borders = np.searchsorted(shards[order], np.arange(len(dataset.shards) + 1))
    names = table["shard"].to_pylist()
    for shard in dataset.shards:
        own = order[borders[shard.index] : borders[shard.index + 1]]
        if shard.holder is dataset and not np.array_equal(rows[own], np.arange(shard.num_rows)):
            yield f"it selects {len(own)} rows of {shard.name}, which has {shard.num_rows}"
        elif len(own) and not (rows[own].min() >= 0 and rows[own].max() < shard.num_rows):
            yield f"it selects rows beyond the {shard.num_rows} of {shard.name}"
        if any(names[index] != shard.name for index in own):
            yield f"it calls {shard.name} by another name"


def _blocks(dataset: Dataset) -> Iterator[str]:
    """The blocks of each own shard hold its rows and cover its bytes."""
    blocks: dict[str, tuple[int, int]] = {}
    for name, num_rows, size in zip(
        *(dataset.table("rows", ["shard", "num_rows", "size"])[c].to_pylist() for c in ("shard", "num_rows", "size")),
        strict=True,
    ):
        rows, total = blocks.get(name, (0, 0))
        blocks[name] = rows + num_rows, total + size
    for shard in (*dataset.shards, *dataset.sequence_shards):
        if shard.holder is dataset and blocks.get(shard.name) != (shard.num_rows, shard.entry.size):
            yield f"the blocks of {shard.name} hold {blocks.get(shard.name)}, not {(shard.num_rows, shard.entry.size)} rows and bytes"
