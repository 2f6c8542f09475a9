"""Splits of small datasets, and what is asked of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import orjson

from shardkit.prepare.split.config import SplitConfig, SplitResult, parse_ratios
from shardkit.prepare.split.run import run
from shardkit.records import Example
from shardkit.store import Dataset
from tests.prepare.builders import example

RATIOS = "train=0.8,val=0.1,test=0.1"


def split(source: Path, out: Path | None, ratios: str | None = RATIOS, **options) -> SplitResult:
    return run(
        SplitConfig(
            input=source,
            output=out,
            ratios=None if ratios is None else parse_ratios(ratios),
            dry_run=out is None,
            **options,
        )
    )


def listed(result: SplitResult) -> dict[str, int]:
    """Boilerplate kind -> how many, where there are any."""
    return {kind: count for kind, count in result.report["boilerplate"].items() if count}


def places(path: Path) -> dict[str, str]:
    """Text -> split."""
    dataset = Dataset.open(path)
    return {e.text: dataset.shards[shard].split for shard, _, e in dataset.examples()}


def files(path: Path) -> dict[str, bytes]:
    found = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    return {**found, "manifest.json": orjson.loads(found["manifest.json"])["dataset_id"].encode()}


def books(count: int, pages: int = 3, *, first: int = 0) -> list[Example]:
    return [
        example(f"book {b} page {p}", group=f"book {b}", source="even" if b % 2 else "odd", book=f"book {b}")
        for b in range(first, first + count)
        for p in range(pages)
    ]


def assert_whole(path: Path, key) -> Counter:
    """Rows of one key stand in one split; returns the number of rows by split."""
    dataset = Dataset.open(path)
    found = defaultdict(set)
    for shard, _, made in dataset.examples():
        found[key(made)].add(dataset.shards[shard].split)
    assert all(len(where) == 1 for value, where in found.items() if value is not None), found
    return Counter(dataset.shards[shard].split for shard, _, _ in dataset.examples())
