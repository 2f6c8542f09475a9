"""Who attends to whom in a batch. No 2-D mask travels or is stored: boundaries are enough.

cu_seqlens = 0 3 5        1 . . . .
                          1 1 . . .
                          1 1 1 . .
                          . . . 1 .
                          . . . 1 1

Every row's keys are one range [low, high), and neither bound falls from one row to the next. So the blocks of FlexAttention
can be written down from the bounds of each block's rows, without a look at any element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shardkit.loader.device import Batch

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK = 128
"""Rows and keys of a block, as FlexAttention has them where nothing else is said."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bounds:
    """R rows of queries and K keys: row q attends to the keys low[q] <= k < high[q].

    Neither `low` nor `high` ever falls, and a row may have none.
    """

    low: Tensor
    """[R] int32"""
    high: Tensor
    """[R] int32"""
    num_keys: int

    def dense(self) -> Tensor:
        """[R, K] bool, row attends to column: the slow form that kernels are compared with."""
        place = torch.arange(self.num_keys, dtype=torch.int32, device=self.low.device)
        return (place >= self.low[:, None]) & (place < self.high[:, None])

    def blocks(self, size: int = BLOCK) -> Blocks:
        """Which blocks of `size` x `size` hold anything, and which are whole; nothing here waits for a device."""
        rows = -(-len(self.low) // size)
        empty = self.low >= self.high
        never = self.num_keys + size
        least_low, most_high, most_low, least_high = (
            _by_block(torch.where(empty, fill, bound), rows, size, most=most)
            for bound, fill, most in (
                (self.low, never, False),
                (self.high, 0, True),
                (self.low, 0, True),
                (self.high, never, False),
            )
        )
        some_empty = _by_block(empty.int(), rows, size, most=True) > 0
        first, last = least_low // size, -(-most_high // size)
        last = torch.maximum(first, last)
        first_full, last_full = -(-most_low // size), least_high // size
        whole = ~some_empty & (first_full < last_full)
        first_full = torch.where(whole, torch.maximum(first_full, first), last)
        last_full = torch.where(whole, torch.minimum(last_full, last), last)
        columns = max(1, -(-self.num_keys // size))
        number = torch.arange(columns, dtype=torch.int32, device=self.low.device)
        before = (first_full - first)[:, None]
        partial = torch.where(number < before, first[:, None] + number, last_full[:, None] + number - before)
        return Blocks(
            size=size,
            num_partial=((last - first) - (last_full - first_full)).int(),
            partial=partial.clamp(0, columns - 1).int(),
            num_full=(last_full - first_full).int(),
            full=(first_full[:, None] + number).clamp(0, columns - 1).int(),
        )

    def block_mask(self, size: int = BLOCK) -> BlockMask:
        """The same as FlexAttention takes it, for one batch row and any number of heads."""
        from torch.nn.attention.flex_attention import BlockMask

        found = self.blocks(size)
        low, high = self.low, self.high

        def allowed(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (key >= low[query]) & (key < high[query])

        return BlockMask.from_kv_blocks(
            found.num_partial[None, None],
            found.partial[None, None],
            found.num_full[None, None],
            found.full[None, None],
            BLOCK_SIZE=size,
            mask_mod=allowed,
            seq_lengths=(len(low), self.num_keys),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Blocks:
    """For each block of rows (Q) the blocks of keys (K at most) that hold anything."""

    size: int
    num_partial: Tensor
    """[Q] int32: how many hold something and not everything."""
    partial: Tensor
    """[Q, K] int32: these, in the first `num_partial` places."""
    num_full: Tensor
    """[Q] int32: how many hold everything."""
    full: Tensor
    """[Q, K] int32: these, in the first `num_full` places."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionLayout:
    """Causal attention inside each document, in the form that variable-length kernels take."""

    cu_seqlens: Tensor
    """[D + 1] int32"""
    max_length: int
    num_tokens: int

    @classmethod
    def of(cls, batch: Batch) -> AttentionLayout:
        return cls(cu_seqlens=batch.cu_seq_lens_q, max_length=batch.max_length_q, num_tokens=batch.input_ids.shape[1])

    @cached_property
    def bounds(self) -> Bounds:
        """Row q attends to the keys from its document's first token to itself."""
        place = torch.arange(self.num_tokens, dtype=torch.int32, device=self.cu_seqlens.device)
        document = torch.searchsorted(self.cu_seqlens[1:], place, right=True, out_int32=True)
        return Bounds(low=self.cu_seqlens[document], high=place + 1, num_keys=self.num_tokens)

    @cached_property
    def block_mask(self) -> BlockMask:
        """For FlexAttention; written down once for all layers."""
        return self.bounds.block_mask()

    def dense(self) -> Tensor:
        """[T, T] bool, row attends to column: the slow form that kernels are compared with; T * T bytes."""
        return self.bounds.dense()


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossLayout:
    """Attention of text to the keys of images, laid end to end: each token sees the run of images last shown to it."""

    bounds: Bounds
    """Rows are tokens; a token with no image before it has an empty range."""

    @classmethod
    def of(cls, batch: Batch, parts: Sequence[int] | None = None) -> CrossLayout:
        """Token q sees the images of its document from the first of the run last shown at or before it, to the last.

        Images side by side are of one run, see shardkit.sequence.intervals.

        Args:
            parts: keys of each image, in order; one each where not given. Whole numbers of the host, so that nothing waits
                for the device.
        """
        num_images, num_tokens = len(batch.image_starts), batch.input_ids.shape[1]
        device = batch.image_starts.device
        starts, behind = batch.image_starts, batch.image_starts + batch.image_slots
        number = torch.arange(num_images, dtype=torch.int32, device=device)
        zeros = torch.zeros(num_tokens + 1, dtype=torch.int32, device=device)
        here = zeros.scatter(0, starts, 1)[:num_tokens]
        high = here.cumsum(0, dtype=torch.int32)
        # What is seen begins anew behind the images of the documents before, and with each run. An image that goes on with
        # a run writes to the place behind the last token, which nobody reads.
        joins = torch.cat([starts.new_zeros(min(1, num_images), dtype=torch.bool), starts[1:] == behind[:-1]])
        document_starts = batch.cu_seq_lens_q[:-1].long()
        first = zeros.scatter(0, document_starts, (high - here)[document_starts])
        first = first.scatter(0, torch.where(joins, num_tokens, starts), number)
        low = first[:num_tokens].cummax(0).values
        if parts is None:
            return cls(bounds=Bounds(low=low, high=high, num_keys=num_images))
        ends = torch.tensor([0, *accumulate(parts)], dtype=torch.int32).to(device, non_blocking=True)
        return cls(bounds=Bounds(low=ends[low.long()], high=ends[high.long()], num_keys=sum(parts)))

    @cached_property
    def block_mask(self) -> BlockMask:
        return self.bounds.block_mask()

    @property
    def sees_images(self) -> Tensor:
        """[T] bool: whether a token sees any image; the output of the others is to be 0, whatever a kernel makes of it."""
        return self.bounds.low < self.bounds.high

    def dense(self) -> Tensor:
        """[T, K] bool"""
        return self.bounds.dense()


def _by_block(values: Tensor, blocks: int, size: int, *, most: bool) -> Tensor:
    """[blocks] the largest or smallest value of each block of `size`; the last block may be shorter."""
    missing = blocks * size - len(values)
    if not blocks:
        return values[:0]
    # Filled with the last value, which changes neither the largest nor the smallest.
    filled = torch.cat([values, values[-1:].expand(missing)]).view(blocks, size)
    found: Callable[..., Tensor] = filled.amax if most else filled.amin
    return found(dim=1)
