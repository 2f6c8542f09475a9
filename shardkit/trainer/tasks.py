"""Tasks: what of a batch is summed, and by what the sums of a global batch are divided.

loss = sum over names of   weight * sum / denominator          sums over ranks and micro-steps first, see objective.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
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
        """[names] float64 over a batch, where the model is."""

    def denominators(self, batch: Batch) -> Tensor:
        """[names] float64 of the whole global batch, on the host; 0 for what it does not have."""

    def by_sequence(self, model: VisionLanguage, batch: Batch) -> tuple[Tensor, Tensor]:
        """([S, names] sums, [S, names] what they count), float64: for evaluation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTask:
    """Cross-entropy of target tokens, by objective: all tasks but those of preference pairs."""

    weights: Tensor
    names: tuple[str, ...] = tuple(OBJECTIVES)

    def sums(self, model: VisionLanguage, batch: Batch) -> Tensor:
        return numerators(model.losses(batch), batch.objective_ids[0])

    def denominators(self, batch: Batch) -> Tensor:
        return batch.denominators.cpu()

    def by_sequence(self, model: VisionLanguage, batch: Batch) -> tuple[Tensor, Tensor]:
        losses_T, objectives_T = model.losses(batch).double(), batch.objective_ids[0]
        sequences, names = len(batch.example_ids), len(self.names)
        documents_S = torch.diff(batch.sequence_starts).long()
        numbers_S = torch.arange(sequences, device=documents_S.device)
        sequence_D = torch.repeat_interleave(numbers_S, documents_S, output_size=int(documents_S.sum()))
        cells_T = sequence_D[batch.seq_idx[0].long()] * names + objectives_T
        targets_T = (objectives_T > 0).double()
        sums, counts = (
            values.new_zeros(sequences * names).index_add(0, cells_T, values).view(sequences, names)
            for values in (losses_T * targets_T, targets_T)
        )
        return sums, counts
