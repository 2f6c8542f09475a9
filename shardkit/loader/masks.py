"""Who attends to whom in a batch. No 2-D mask travels or is stored: boundaries are enough.

cu_seqlens = 0 3 5        1 . . . .
                          1 1 . . .
                          1 1 1 . .
                          . . . 1 .
                          . . . 1 1
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from shardkit.loader.device import Batch


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionLayout:
    """Causal attention inside each sequence, in the form that variable-length kernels take."""

    cu_seqlens: Tensor
    """[S + 1] int32"""
    max_length: int

    @classmethod
    def of(cls, batch: Batch) -> AttentionLayout:
        return cls(cu_seqlens=batch.cu_seq_lens_q, max_length=batch.max_length_q)

    def dense(self) -> Tensor:
        """[T, T] bool, row attends to column: the slow form that kernels are compared with; T * T bytes."""
        num_tokens = int(self.cu_seqlens[-1])
        place = torch.arange(num_tokens, dtype=torch.int32, device=self.cu_seqlens.device)
        sequence = torch.searchsorted(self.cu_seqlens[1:], place, right=True)
        return (sequence[:, None] == sequence[None, :]) & (place[:, None] >= place[None, :])
