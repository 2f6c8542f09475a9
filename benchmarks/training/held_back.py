"""Losses on held-back groups: of a model, and of a unigram that was fitted on the training split.

Errors are over groups, because sequences of one group are no independent witnesses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import torch
from torch import Tensor

from shardkit.loader import Batch, EvaluationLoader, sums_by_sequence, targets_by_sequence
from shardkit.store.dataset import Dataset
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.preference import answers

HELD_BACK = "val"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """Over the target tokens of a group, in nats."""

    model: float = 0.0
    unigram: float = 0.0
    tokens: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            model=self.model + other.model, unigram=self.unigram + other.unigram, tokens=self.tokens + other.tokens
        )


ByGroup = Mapping[str, Sums]


def unigram(data: Path) -> Tensor:
    """[V] nats that each token costs: its share among the targets of the training split, one added to every count."""
    dataset = Dataset.open(data)
    counts_V = torch.ones(dataset.recipe["vocab_size"], dtype=torch.float64)
    with EvaluationLoader(dataset, split="train") as loader:
        for batch in loader:
            targets = batch.shift_labels[batch.shift_labels >= 0]
            counts_V.index_add_(0, targets, torch.ones_like(targets, dtype=torch.float64))
    return -torch.log(counts_V / counts_V.sum())


def losses(model: VisionLanguage, data: Path, unigram_V: Tensor) -> ByGroup:
    """Group -> its sums over the held-back split; model and unigram are asked for the same targets."""
    dataset = Dataset.open(data)
    groups = groups_of(dataset)
    found: dict[str, Sums] = {}
    with torch.no_grad(), EvaluationLoader(dataset, split=HELD_BACK) as loader:
        for batch in loader:
            model_S = sums_by_sequence(batch, model.losses(batch).double()[None])
            unigram_S = sums_by_sequence(batch, unigram_V[batch.shift_labels.clamp(min=0)])
            columns = (model_S.tolist(), unigram_S.tolist(), targets_by_sequence(batch).tolist())
            for example, one, other, tokens in zip(batch.example_ids, *columns, strict=True):
                group = groups[example]
                found[group] = found.get(group, Sums()) + Sums(model=one, unigram=other, tokens=tokens)
    return found


def groups_of(dataset: Dataset) -> dict[str, str]:
    """Example id -> group; an example without one is a group of its own."""
    table = dataset.table("examples", ["example_id", "group"])
    names = zip(table["example_id"].to_pylist(), table["group"].to_pylist(), strict=True)
    return {example: example if group is None else group for example, group in names}


def pooled(runs: Iterable[ByGroup]) -> ByGroup:
    """The sums of several runs, group by group."""
    found: dict[str, Sums] = {}
    for run in runs:
        for group, sums in run.items():
            found[group] = found.get(group, Sums()) + sums
    return found


def per_token(values: Iterable[float], tokens: Iterable[int]) -> tuple[float, float]:
    """(sum of values / sum of tokens, its standard error over the groups that both run over).

    The error of a ratio of sums, by its residuals: Cochran, Sampling Techniques, 1977, section 6.3.
    """
    values, tokens = [*values], [*tokens]
    ratio = sum(values) / sum(tokens)
    residuals = sum((value - ratio * count) ** 2 for value, count in zip(values, tokens, strict=True))
    return ratio, math.sqrt(residuals * len(values) / max(len(values) - 1, 1)) / sum(tokens)


def mean(values: Iterable[float]) -> tuple[float, float]:
    """(mean, its standard error)"""
    values = [*values]
    return fmean(values), stdev(values) / math.sqrt(len(values))


def said_of_pairs(model: VisionLanguage, data: Path) -> dict[tuple[int, int], tuple[float, float]]:
    """Row of each held-back pair -> log-probabilities of its chosen and its rejected answer."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    with torch.no_grad(), EvaluationLoader(data, split=HELD_BACK) as loader:
        for batch in loader:
            values = answers(model, batch).tolist()
            found |= {row: (one, other) for row, (one, other) in zip(rows_of(batch), values, strict=True)}
    return found


def rows_of(batch: Batch) -> tuple[tuple[int, int], ...]:
    assert batch.info is not None, "a loader's batch knows its rows"
    return batch.info.rows
