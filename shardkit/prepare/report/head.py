"""`shardkit head`: the first examples of a dataset, in short."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from shardkit.prepare.named import check_split
from shardkit.records import Example
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings
from shardkit.text.excerpt import excerpt

TEXT = 200
"""Characters of text that are shown."""


def head(
    path: Path,
    *,
    number: int,
    split: str | None = None,
    bases: Sequence[Path] = (),
    remote: RemoteSettings | None = None,
) -> list[dict[str, Any]]:
    """The first `number` examples of a dataset, or of one of its splits.

    Raises:
        ConfigError: where the dataset has no such split.
        IntegrityError: where a shard is damaged.
    """
    dataset = Dataset.open(path, base=bases, remote=remote)
    if split is not None:
        check_split(dataset, split)
    return [
        {"shard": dataset.shards[shard].name, "row": row, "split": dataset.shards[shard].split, **_short(example)}
        for shard, row, example in islice(dataset.examples(split, whole=False), number)
    ]


def _short(example: Example) -> dict[str, Any]:
    return {
        "example_id": example.example_id,
        "source": example.source,
        "group": example.group,
        "text": excerpt(example.text, TEXT),
        "num_characters": len(example.text),
        "images": [
            {
                "height": image.height,
                "width": image.width,
                "media_type": image.media_type,
                "bytes": len(image.data),
                "asset_id": image.asset_id,
            }
            for image in example.images
        ],
        "relations": [relation.kind for relation in example.relations],
        "metadata": orjson.loads(example.metadata),
    }
