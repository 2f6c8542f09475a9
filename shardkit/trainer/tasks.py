"""Tasks: what of a batch is summed, and by what the sums of a global batch are divided.

loss = sum over names of   weight * sum / denominator          sums over ranks and micro-steps first, see objective.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from shardkit.loader.device import Batch
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.trainer.model import VisionLanguage
from shardkit.trainer.objective import numerators


class Task(Protocol):
    @property
    def names(self) -> tuple[str, ...]:
        """Of what is summed."""

    @property
    def weights(self) -> Tensor:
        """[names] float64; 0 for what is only watched."""

    def sums(self, model: VisionLanguage, batch: Batch) -> Tensor:
        """[names] float64 over a batch."""

    def denominators(self, batch: Batch) -> Tensor:
        """[names] float64 of the whole global batch; 0 for what it does not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTask:
    """Cross-entropy of target tokens, by objective: lm, sft and vlm-align."""

    weights: Tensor
    names: tuple[str, ...] = tuple(OBJECTIVES)

    def sums(self, model: VisionLanguage, batch: Batch) -> Tensor:
        return numerators(model.losses(batch), batch.objective_ids[0])

    def denominators(self, batch: Batch) -> Tensor:
        return batch.denominators
