"""Lengths from a tokenized dataset: the split that is planned, and what identifies it."""

from __future__ import annotations

from typing import Any

from shardkit.errors import ConfigError
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


def identity(dataset: Dataset, split: str) -> dict[str, Any]:
    """What a plan's digest says of its lengths."""
    return {"dataset": dataset.id, "split": split}
