"""The processes of one run: torchrun starts them; gloo carries sums of the host, NCCL those of GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from shardkit.errors import ConfigError, ShardkitError
from shardkit.loader.choices import number_of_environment


@contextmanager
def joined_ranks(device: str = "cpu") -> Iterator[tuple[int, int]]:
    """(rank, world size): those of torchrun's group while the block runs, or (0, 1) for a process started alone.

    A group that is there already is taken as it is. RANK, WORLD_SIZE and LOCAL_RANK are torchrun's protocol, not settings
    of ours. With device "cuda" each process of a host takes the GPU of its local rank.

    Raises:
        ConfigError: where there is to be a group, and the others are not found.
    """
    if dist.is_initialized():
        yield dist.get_rank(), dist.get_world_size()
        return
    if number_of_environment("WORLD_SIZE", 1) == 1:
        yield 0, 1
        return
    gpus = device == "cuda" and torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(number_of_environment("LOCAL_RANK", 0))
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


class AnotherRankFailed(Exception):  # noqa: N818 - it tells of an error, which another process raises
    """A lower rank says what is wrong; this one only ends as that one does. So it is none of the errors that are said."""

    def __init__(self, rank: int, code: int) -> None:
        super().__init__(rank, code)
        self.rank = rank
        self.code = code
        """The exit code of its error."""

    def __str__(self) -> str:
        return f"rank {self.rank} of the run has failed; see what it said"


@contextmanager
def failing_together() -> Iterator[None]:
    """All ranks come out of the block, or none does, so that none waits for one that is gone and one error is said once.

    A rank that fails here while the others have yet to enter a block inside this one meets them there.

    Raises:
        ShardkitError: what the lowest rank that failed has raised, there; where one has stopped without a word, that.
        AnotherRankFailed: on all others.
    """
    error: ShardkitError | AnotherRankFailed | None = None
    try:
        yield
    except (ShardkitError, AnotherRankFailed) as found:
        error = found
    if dist.is_initialized():
        codes = torch.zeros(dist.get_world_size(), dtype=torch.int64)
        if isinstance(error, ShardkitError):
            codes[dist.get_rank()] = error.exit_code
        try:
            sum_over_ranks([codes])
        except ShardkitError:
            if error is None:
                raise
        else:
            failed = [(rank, code) for rank, code in enumerate(codes.tolist()) if code]
            if failed and failed[0][0] != dist.get_rank():
                raise AnotherRankFailed(*failed[0]) from error
    if error is not None:
        raise error


def found_by_all(error: ShardkitError) -> Exception:
    """What a rank raises where every one of them has the same error: one voice is enough."""
    rank = dist.get_rank() if dist.is_initialized() else 0
    return AnotherRankFailed(0, error.exit_code) if rank else error


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ShardkitError(
            "another process of the run has stopped", hint="see what it said; go on with --resume once that is mended"
        ) from error
