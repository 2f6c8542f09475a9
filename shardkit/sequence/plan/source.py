"""What a plan or an order takes from a dataset: the split that is meant, its rows, and what identifies them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardkit.errors import ConfigError
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan.lengths import Lengths
from shardkit.store.dataset import Dataset

NEVER_SPLIT = ("all",)


def choose_split(dataset: Dataset, split: str | None) -> str:
    """The split that is meant: `train` of a dataset that is split, `all` of one that never was.

    Raises:
        ConfigError: where the dataset holds no sequences, or no such split.
    """
    if not dataset.has_table("lengths"):
        raise ConfigError(
            f"a dataset of stage {dataset.stage} holds no sequences",
            where=str(dataset.path),
            hint="run `shardkit tokenize` on it and name its output",
        )
    return named_split(dataset, split)


def named_split(dataset: Dataset, split: str | None) -> str:
    """The same of a dataset of any stage.

    Raises:
        ConfigError: where it has no such split.
    """
    if split is None:
        split = "all" if dataset.splits == NEVER_SPLIT else "train"
    if split not in dataset.splits:
        raise ConfigError(
            f"there is no split {split!r} (splits: {', '.join(dataset.splits)})",
            where=str(dataset.path),
            hint="name one of them with split=, or --split",
        )
    return split


def read_lengths(dataset: Dataset, split: str) -> Lengths:
    """The lengths of a split, the table compared with the manifest first."""
    return Lengths.from_table(dataset.table("lengths"), split=split)


def read_examples(dataset: Dataset, split: str) -> Lengths:
    """The examples of a split as the rows that an order is drawn of: shards are those of examples, and no size is known."""
    table = dataset.table("examples", ["example_id", "shard_index", "row"])
    shard, row = (table[name].to_numpy() for name in ("shard_index", "row"))
    own = np.array([one.split == split for one in dataset.shards], bool)
    where = np.flatnonzero(own[shard])
    where = where[np.lexsort((row[where], shard[where]))]
    ids = table["example_id"].take(where).to_pylist()
    unknown = np.broadcast_to(np.int64(0), len(where))
    return Lengths(
        key=np.array([int(text[:16], 16) for text in ids], np.uint64),
        shard=shard[where],
        row=row[where],
        tokens=unknown,
        images=unknown,
        patches=unknown,
        supervised=np.broadcast_to(unknown, (len(OBJECTIVES), len(where))),
        source=np.broadcast_to(np.int32(0), len(where)),
        sources=("",),
    )


def identity(dataset: Dataset, split: str) -> dict[str, Any]:
    """What a plan's digest says of its lengths."""
    return {"dataset": dataset.id, "split": split}
