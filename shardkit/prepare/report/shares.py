"""Shares of a dataset by source, annotator and modality, in every unit that a share can be a share of.

  example   one an example
  bytes     payload: images, texts, metadata, ids
  media     pixels of its images as stored
after tokenize also
  sequence  one a sequence
  token     its tokens
  loss      target tokens times the weight of their objective
  compute   the plan's cost formula (`shardkit.sequence.cost`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.prepare.dedup.inputs import as_int32
from shardkit.sequence.plan.lengths import Lengths
from shardkit.sequence.plan.mixture import Mixture
from shardkit.store.dataset import Dataset

Numbers = npt.NDArray[np.int64]

UNNAMED = "unknown"
"""What stands for an annotator that no relation names."""
_TOKENIZED = ("sequence", "token", "loss", "compute")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Dimension:
    """One way to divide the examples."""

    name: str
    names: tuple[str, ...]
    codes: Numbers
    """[N] place in `names`; -1 is none."""


def shares(dimensions: list[Dimension], units: Mapping[str, Numbers]) -> dict[str, Any]:
    """Of each dimension and value: the amount in each unit, and its share of all.

    Args:
        units: unit -> [N] amounts of the examples.
    """
    totals = {unit: int(amounts.sum()) for unit, amounts in units.items()}
    return {one.name: dict(_of(one, units, totals)) for one in dimensions}


def _of(one: Dimension, units: Mapping[str, Numbers], totals: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    names = (*one.names, UNNAMED)
    codes = np.where(one.codes < 0, len(one.names), one.codes)
    present = np.bincount(codes, minlength=len(names))
    sums = {unit: _sums(codes, amounts, len(names)) for unit, amounts in units.items()}
    for place, name in enumerate(names):
        if present[place]:
            amounts = {unit: int(of_unit[place]) for unit, of_unit in sums.items()}
            yield (
                name,
                {
                    "amounts": amounts,
                    "shares": {
                        unit: amount / totals[unit] if totals[unit] else 0.0 for unit, amount in amounts.items()
                    },
                },
            )


def _sums(codes: Numbers, amounts: Numbers, size: int) -> Numbers:
    """Whole numbers, which bincount would add up as fractions of double precision."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, codes, amounts)
    return sums


def sequence_units(dataset: Dataset, objectives: Mapping[str, Fraction]) -> dict[str, Numbers]:
    """Unit -> [N] what the sequences of each example add up to; empty where the dataset was never tokenized.

    Args:
        objectives: weight of an objective's target tokens in `loss`; 1 where it is not named. Weights with decimals
            make the unit smaller for all, so that amounts are whole.
    """
    if not dataset.has_table("lengths"):
        return {}
    table = dataset.table("examples", ["shard_index", "row"])
    own = _keys(as_int32(table["shard_index"]), as_int32(table["row"]))
    lengths = Lengths.from_table(dataset.table("lengths"))
    mixture = Mixture.of(
        {"by": "loss", "weights": dict.fromkeys(lengths.sources, 1) or {"": 1}, "objectives": dict(objectives)}
    )
    amounts = {
        "sequence": np.ones(len(lengths), np.int64),
        "token": lengths.tokens,
        "loss": mixture.units(lengths),
        "compute": lengths.cost,
    }
    order = np.argsort(own)
    positions = order[np.searchsorted(own[order], _examples_of(dataset, lengths))] if len(own) else own
    sums = {unit: np.zeros(len(own), np.int64) for unit in _TOKENIZED}
    for unit, values in amounts.items():
        np.add.at(sums[unit], positions, values)
    return sums


def _examples_of(dataset: Dataset, lengths: Lengths) -> Numbers:
    """[number of sequences] the key of the example that each sequence was made from."""
    keys = np.zeros(len(lengths), np.int64)
    for shard in dataset.sequence_shards:
        reader = dataset.sequence_reader(shard, verify="off")
        table = reader.table(["shard", "row"])
        stands = np.asarray(dataset.examples_of(shard), np.int32)
        found = _keys(stands[as_int32(table["shard"])], as_int32(table["row"]))
        reader.close()
        own = lengths.shard == shard.index
        keys[own] = found[lengths.row[own]]
    return keys


def _keys(shards: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]) -> Numbers:
    return (shards.astype(np.int64) << 32) | rows
