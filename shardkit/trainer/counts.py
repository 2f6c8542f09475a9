"""What a step saw, in every unit, and what share of it came from each source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from shardkit.loader.device import IGNORE, Batch
from shardkit.sequence.cost import cost
from shardkit.sequence.plan import Mixture
from shardkit.sequence.plan.mixture import objective_weights
from shardkit.trainer.flops import step_flops
from shardkit.trainer.model import VisionLanguage

COUNTS = (
    *("sequences", "images", "pixels", "tokens", "text_tokens", "image_tokens", "supervised_tokens"),
    *("cost", "flops", "room"),
)
"""What the log counts of a step, over all ranks: `cost` as shardkit.sequence.cost has it, `flops` as flops.py has it,
`room` is what packs could hold."""


def count(batch: Batch, model: VisionLanguage) -> Tensor:
    """The batch in units of COUNTS."""
    lengths_D = torch.diff(batch.cu_seq_lens_q).long()
    pixels = batch.image_sizes.long().prod(1).sum()
    patches = batch.image_grid_thw.long().prod(1).sum()
    tokens, image_tokens = batch.input_ids.numel(), int(batch.image_slots.sum())
    return torch.tensor(
        [
            len(batch.example_ids),
            len(batch.image_slots),
            int(pixels),
            tokens,
            tokens - image_tokens,
            image_tokens,
            int((batch.shift_labels != IGNORE).sum()),
            int(cost(lengths_D, 0).sum() + cost(0, patches)),
            step_flops(model, batch),
            batch.info.figures.capacity if batch.info and batch.info.figures else tokens,
        ]
    )


@dataclass(kw_only=True)
class SourceShares:
    """How much of a stage came from each source, in the unit of its mixture; in tokens where nothing is mixed."""

    sources: Sequence[str]
    mixture: Mixture | None = None
    totals: list[int] = field(default_factory=list)
    """Since the stage began, by source; part of a checkpoint."""

    def __post_init__(self) -> None:
        self.totals = self.totals or [0] * len(self.sources)

    @property
    def by(self) -> str:
        return self.mixture.by if self.mixture else "token"

    def count(self, batch: Batch) -> Tensor:
        """[sources] int64: what the batch has of each."""
        units_S = self._units(batch)
        places = torch.tensor([self.sources.index(source) for source in batch.info.sources] if batch.info else [])
        return torch.zeros(len(self.sources), dtype=torch.int64).index_add(0, places.long(), units_S.cpu())

    def add(self, counted: Tensor) -> dict[str, object]:
        """Take in a step, summed over ranks; the shares so far."""
        self.totals = [total + new for total, new in zip(self.totals, counted.tolist(), strict=True)]
        whole = max(sum(self.totals), 1)
        shares = {name: round(total / whole, 6) for name, total in zip(self.sources, self.totals, strict=True)}
        return {"by": self.by, "sources": shares}

    def _units(self, batch: Batch) -> Tensor:
        """[S] int64"""
        sequences, device = len(batch.example_ids), batch.input_ids.device
        if self.by == "example":
            return torch.ones(sequences, dtype=torch.int64)
        patches_S = torch.zeros(sequences, dtype=torch.int64, device=device).index_add(
            0, batch.image_sequences.long(), batch.image_grid_thw.long().prod(1)
        )
        if self.by == "media":
            return patches_S
        bounds_S = batch.cu_seq_lens_q[batch.sequence_starts.long()].long()
        tokens_S = torch.diff(bounds_S)
        if self.by == "compute":
            found: Tensor = cost(tokens_S, patches_S)
            return found
        if self.by == "token":
            return tokens_S
        weights_K = torch.from_numpy(objective_weights(self.mixture)).to(device)
        weights_K[0] = 0  # no target
        values_T = weights_K[batch.objective_ids[0]]
        numbers_S = torch.arange(sequences, device=device)
        owner_T = torch.repeat_interleave(numbers_S, tokens_S, output_size=batch.input_ids.numel())
        return torch.zeros(sequences, dtype=torch.int64, device=device).index_add(0, owner_T, values_T)
