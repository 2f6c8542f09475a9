"""The processes of one run: torchrun starts them; gloo carries sums of the host, NCCL those of GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from shardkit.errors import ConfigError, ShardkitError


@contextmanager
def joined_ranks(device: str = "cpu") -> Iterator[tuple[int, int]]:
    """(rank, world size): those of torchrun's group while the block runs, or (0, 1) for a process started alone.

    RANK, WORLD_SIZE and LOCAL_RANK are torchrun's protocol, not settings of ours. With device "cuda" each process of a host
    takes the GPU of its local rank.

    Raises:
        ConfigError: where there is to be a group, and the others are not found.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield 0, 1
        return
    gpus = device == "cuda" and torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo")
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"WORLD_SIZE says that this is one of several processes; the others are not found ({error})",
            hint="start them with torchrun, or leave WORLD_SIZE out of the environment",
        ) from error
    try:
        yield dist.get_rank(), dist.get_world_size()
    finally:
        dist.destroy_process_group()


def sum_over_ranks(tensors: Sequence[Tensor]) -> None:
    """Add each tensor over all ranks, in place; one message for all tensors of a type and device.

    Raises:
        ShardkitError: where one of them has stopped.
    """
    if not dist.is_initialized():
        return
    for kind in sorted({(tensor.dtype, tensor.device) for tensor in tensors}, key=str):
        alike = [tensor for tensor in tensors if (tensor.dtype, tensor.device) == kind]
        flat = torch.cat([tensor.flatten() for tensor in alike])
        with _together():
            dist.all_reduce(flat)
        for tensor, part in zip(alike, torch.split(flat, [tensor.numel() for tensor in alike]), strict=True):
            tensor.copy_(part.view_as(tensor))


def wait_for_all() -> None:
    """Return when every rank is here.

    Raises:
        ShardkitError: where one of them has stopped.
    """
    if dist.is_initialized():
        with _together():
            dist.barrier()


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ShardkitError(
            "another process of the run has stopped", hint="see what it said; go on with --resume once that is mended"
        ) from error
