"""What a loader is asked for, checked: the rank, the device, and words of a list."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from shardkit.errors import ConfigError
from shardkit.sequence.plan import check_world


@dataclass(frozen=True, kw_only=True, slots=True)
class Rank:
    rank: int
    world_size: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                f"rank {self.rank} is not one of {self.world_size} ranks",
                hint="count ranks from 0 to the world size minus 1",
            )


def choose_rank(rank: int | None, world_size: int | None, global_batch: int) -> Rank:
    """The rank that is named, that of torchrun's environment, or the only one.

    Raises:
        ConfigError: where it is half given or outside the world, or the world does not divide the global batch.
    """
    if (rank is None) != (world_size is None):
        given, missing = ("rank", "world_size") if world_size is None else ("world_size", "rank")
        raise ConfigError(f"{given} is given, {missing} is not", hint="give both, or neither")
    if rank is None or world_size is None:
        rank, world_size = number_of_environment("RANK", 0), number_of_environment("WORLD_SIZE", 1)
    check_world(global_batch, world_size)
    return Rank(rank=rank, world_size=world_size)


def choose_device(device: torch.device | str) -> torch.device:
    """A device by its name. Whether it is at hand is asked with the first batch: a loader may be made elsewhere.

    Raises:
        ConfigError: where torch knows no such name.
    """
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"device is {device!r}, which torch does not know", hint='set device to "cpu" or "cuda"'
        ) from error


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is not in the list."""
    if value not in known:
        raise ConfigError(f"{name} is {value!r}, none of {', '.join(known)}", hint=f"set {name} to one of them")


def check_epochs(epochs: int | None) -> int | None:
    """Refuse what is no number of epochs."""
    if epochs is not None and (type(epochs) is not int or epochs < 0):
        raise ConfigError(f"epochs is {epochs!r}, not a whole number from 0 on", hint="set epochs, or leave it out")
    return epochs


def number_of_environment(name: str, default: int) -> int:
    """A number of torchrun's protocol: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE.

    Raises:
        ConfigError: where it is no number.
    """
    text = os.environ.get(name)
    if text is None:
        return default
    if not (text.isdecimal() and len(text) < 10):
        raise ConfigError(
            f"{name} in the environment is {text!r}, not a number",
            hint="start with torchrun, or give rank and world_size",
        )
    return int(text)
