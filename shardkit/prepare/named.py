"""Datasets and splits as a command line names them: opened, and refused where a name is not what it must be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from shardkit.errors import ConfigError, SourceError
from shardkit.store.dataset import Dataset
from shardkit.store.manifest_file import is_dataset


def open_by_id(paths: Iterable[Path], *, base: Sequence[Path] = ()) -> list[Dataset]:
    """Open datasets, ordered by id: the order on the command line does not matter.

    Raises:
        ConfigError: where one is named twice.
    """
    datasets = sorted((Dataset.open(path, base=base) for path in paths), key=lambda dataset: dataset.id)
    check_named_once(datasets)
    return datasets


def check_named_once(datasets: Iterable[Dataset]) -> None:
    """Refuse a dataset that is named twice.

    Raises:
        ConfigError: where two are the same.
    """
    for one, other in pairwise(sorted(datasets, key=lambda dataset: dataset.id)):
        if one.id == other.id:
            raise ConfigError("the input is named twice", where=str(other.path), hint="name each dataset once")


def check_split(dataset: Dataset, split: str) -> None:
    """Refuse a split that is not there.

    Raises:
        ConfigError: where the dataset has no such split; with those that it has.
    """
    if split not in dataset.splits:
        raise ConfigError(
            f"the dataset has no split {split!r}; it has {', '.join(dataset.splits)}",
            where=dataset.where,
            hint="name one of them with --split",
        )


def check_dump(path: Path) -> None:
    """Refuse a dataset where a dump is wanted: its tables would be taken for rows.

    Raises:
        SourceError: where a dataset was committed at `path`.
    """
    if is_dataset(path):
        raise SourceError(
            "this is a dataset, not a dump",
            where=str(path),
            hint="give it to the next stage as it is (`shardkit dedup`, `split`, `concat`, ...); "
            "`shardkit export` writes its rows for other tools",
        )
