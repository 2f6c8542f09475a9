"""What a run got from the loader: how long it waited, how fast the loader is alone, what the mixture delivered.

All of it is of the batches that the run trained on: the log names them, the loader that is asked again must give the
same ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Any

import torch

from shardkit.loader import Batch, StreamingLoader, sums_by_sequence
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.plan import Mixture
from shardkit.trainer.build import repeatable
from shardkit.trainer.config import TrainConfig
from shardkit.trainer.metrics import read_log

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Feeding:
    waited: float
    """Share of the time of all steps that the run waited for data"""
    step_seconds: float
    """Of a step, the median"""
    loader_seconds: float
    """Of a batch of the loader alone, with the patches of its pictures cut; the best of some rounds"""

    @property
    def times(self) -> float:
        """How many times the trainer's need the loader alone delivers."""
        return self.step_seconds / self.loader_seconds


def feeding(config: TrainConfig, *, most: int = 100, rounds: int = 3) -> Feeding:
    """Of a run that is over; the loader alone gives the run's first batches again, `most` of them at most."""
    log = read_log(config.out / "log.jsonl")
    steps = [record["seconds"] for record in log]
    return Feeding(
        waited=sum(record["seconds_by_part"]["data"] for record in log) / sum(steps),
        step_seconds=median(steps),
        loader_seconds=min(_alone(config, log[:most]) for _ in range(rounds)),
    )


def _alone(config: TrainConfig, log: Sequence[Record]) -> float:
    """Seconds a batch, with the threads of the run: more of them would take the cores from those that decode."""
    with repeatable(config):
        began = time.perf_counter()
        for batch in again(config, log):
            _ = batch.patches
        return (time.perf_counter() - began) / len(log)


def again(config: TrainConfig, log: Sequence[Record]) -> Iterator[Batch]:
    """The batches of these steps, from a loader of the run's settings.

    Raises:
        RuntimeError: where they are others.
    """
    assert config.max_tokens is not None, "a run decides what it was not told"
    assert config.micro_steps == 1, "a step is one batch"
    with StreamingLoader(
        config.data,
        seed=config.seed,
        max_tokens=config.max_tokens,
        global_batch=config.global_batch,
        packer=config.packer,
        mixture=config.mixture,
        epochs=len(log),  # more than are needed
    ) as loader:
        for record, batch in zip(log, islice(loader, len(log)), strict=True):
            if batch.batch_id != record["batch_id"]:
                raise RuntimeError(
                    f"step {record['step']} was of batch {record['batch_id']}, now it is {batch.batch_id}"
                )
            yield batch


def delivered(config: TrainConfig) -> dict[str, float]:
    """Source -> its share of weight x supervised tokens in the batches that a run trained on; see `shares`."""
    assert config.mixture is not None, "the run mixes"
    return shares(again(config, read_log(config.out / "log.jsonl")), Mixture.of(config.mixture))


def shares(batches: Iterable[Batch], mixture: Mixture) -> dict[str, float]:
    """Source -> its share of weight x supervised tokens, up to the end of the last whole block.

    A block's packs are shuffled, so inside of it shares wander. Empty where no block was finished.
    """
    chosen = dict(mixture.objectives)
    weights = torch.tensor([float(chosen.get(name, 1)) for name in OBJECTIVES], dtype=torch.float64)
    totals: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    block = (0, 0)
    for batch in batches:
        assert batch.info is not None, "a loader's batch knows its place"
        after = batch.info.after
        if (after.epoch, after.block) != block and after.pack:
            whole, block = totals.copy(), (after.epoch, after.block)
        # Of targets alone: what is none has the objective 0, and is left out of the sums.
        values = sums_by_sequence(batch, weights[batch.objective_ids]).tolist()
        for source, value in zip(batch.sources, values, strict=True):
            totals[source] += value
        if not after.pack:
            whole, block = totals.copy(), (after.epoch, after.block)
    return {source: total / sum(whole.values()) for source, total in sorted(whole.items())}


def wanted(config: TrainConfig) -> dict[str, float]:
    """Source -> its share, as the mixture says."""
    assert config.mixture is not None, "the run mixes"
    weights = dict(Mixture.of(config.mixture).weights)
    return {source: float(weight / sum(weights.values())) for source, weight in sorted(weights.items())}
