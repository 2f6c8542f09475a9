"""The datasets that a dataset was made from, as far as they are at hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shardkit.digest import fingerprint
from shardkit.prepare.lineage.index import Index
from shardkit.store.dataset import Dataset

_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """An input that is neither where the manifest says nor below a base."""

    dataset_id: str
    child: str
    """Path of the dataset that was made from it."""


class Ancestry:
    """A dataset and everything it was made from.

    Attributes:
        indices: look-ups in each, oldest first; the last one is the dataset itself.
        missing: inputs that are not at hand.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.indices: list[Index] = []
        self._absent: dict[str, Missing] = {}
        self._visit(dataset, set())
        there = {index.dataset.id for index in self.indices}
        self.missing = [one for one in self._absent.values() if one.dataset_id not in there]

    @property
    def own(self) -> Index:
        return self.indices[-1]

    @cached_property
    def ingests(self) -> dict[str, Dataset]:
        """Source name -> dataset that took it in."""
        found = [index.dataset for index in self.indices if index.dataset.stage == "ingest"]
        return {str(dataset.recipe["source"]): dataset for dataset in found if "source" in dataset.recipe}

    def to_json(self) -> list[dict[str, Any]]:
        """stage, path, id and fingerprint of the recipe, oldest first; then id and None for what is missing."""
        there = [
            {
                "stage": dataset.stage,
                "path": dataset.place,
                "id": dataset.id,
                "recipe": fingerprint(dataset.recipe),
            }
            for dataset in (index.dataset for index in self.indices)
        ]
        absent = [{"stage": None, "path": None, "id": one.dataset_id, "recipe": None} for one in self.missing]
        return there + absent

    def _visit(self, dataset: Dataset, seen: set[str]) -> None:
        seen.add(dataset.id)
        for dataset_id in _parents(dataset):
            if dataset_id in seen:
                continue
            found = dataset.find(dataset_id)
            if found is not None:
                self._visit(found, seen)
            elif dataset_id in dataset.manifest.inputs:
                self._absent[dataset_id] = Missing(dataset_id=dataset_id, child=str(dataset.path))
        self.indices.append(Index(dataset))


def _parents(dataset: Dataset) -> Iterator[str]:
    """Ids of the datasets whose rows this one may hold: its inputs, and whose shards it refers to.

    An older split (`--like`), the datasets of parents and the references of dedup are inputs too, but none of their rows
    is taken over.
    """
    recipe = dataset.recipe
    compared = {recipe.get("like"), *(recipe.get("references") or ()), *(recipe.get("parents") or ())}
    held = (shard.dataset for shard in dataset.manifest.shards if shard.dataset is not None)
    for dataset_id in dict.fromkeys([*dataset.manifest.inputs, *held]):
        if _ID.fullmatch(dataset_id) and dataset_id not in compared:
            yield dataset_id
