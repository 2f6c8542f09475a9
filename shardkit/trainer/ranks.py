"""The processes of one run: torchrun starts them, gloo carries their sums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


@contextmanager
def joined_ranks() -> Iterator[tuple[int, int]]:
    """(rank, world size): those of torchrun's group while the block runs, or (0, 1) for a process started alone.

    RANK and WORLD_SIZE are torchrun's protocol, not settings of ours.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    dist.init_process_group("gloo")
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def sum_over_ranks(tensors: Sequence[Tensor]) -> None:
    """Add each tensor over all ranks, in place; one message for all tensors of a type."""
    if not dist.is_initialized():
        return
    for kind in sorted({tensor.dtype for tensor in tensors}, key=str):
        alike = [tensor for tensor in tensors if tensor.dtype == kind]
        flat = torch.cat([tensor.flatten() for tensor in alike])
        dist.all_reduce(flat)
        for tensor, part in zip(alike, torch.split(flat, [tensor.numel() for tensor in alike]), strict=True):
            tensor.copy_(part.view_as(tensor))


def wait_for_all() -> None:
    """Return when every rank is here."""
    if dist.is_initialized():
        dist.barrier()
