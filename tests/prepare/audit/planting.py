"""A dataset whose shards were rewritten: digests in manifest.json fit, the tables are left as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson

from shardkit.records import Example, example_id
from shardkit.records.manifest import Manifest
from shardkit.store import Dataset
from shardkit.store.columns import to_rows
from shardkit.store.tar_shard import index_path
from shardkit.store.units import SHARD_FORMATS


def rewrite(path: Path, shard: int, change: Callable[[list[Example]], list[Example]], *, new_id: bool = False) -> None:
    """Write a shard anew with other examples, and its digest into the manifest.

    Args:
        new_id: give the manifest the id that fits, too.
    """
    dataset = Dataset.open(path)
    ref = dataset.shards[shard]
    reader = dataset.reader(ref)
    rows = change([reader.example(row) for row in range(ref.num_rows)])
    reader.close()
    ref.path.unlink()
    index_path(ref.path).unlink(missing_ok=True)
    writer = SHARD_FORMATS[ref.entry.format](ref.path)
    for row in rows:
        writer.add(to_rows([row], [{}]))
    written = writer.close()
    body = orjson.loads((path / "manifest.json").read_bytes())
    entry = body["shards"][shard]
    entry |= {"rows": written.rows, "size": written.size, "xxh3": written.xxh3}
    entry |= {"index_size": written.index_size, "index_xxh3": written.index_xxh3}
    data = Manifest.from_json(body).to_json() if new_id else orjson.dumps(body, option=orjson.OPT_SORT_KEYS) + b"\n"
    (path / "manifest.json").write_bytes(data)


def named(example: Example) -> Example:
    """With the id that its content gives."""
    return replace(example, example_id=example_id(example))


def first_of(path: Path, split: str) -> tuple[int, Example]:
    """Index of the first shard of a split, and its first example."""
    dataset = Dataset.open(path, check_id=False)
    shard, _, example = next(iter(dataset.examples(split, verify="off")))
    return shard, example
