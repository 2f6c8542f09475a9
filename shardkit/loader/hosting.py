"""Which worker of torch's DataLoader this process is, and which iteration its workers are in.

The loader of the main process never sees its workers' copies move. All copies share one number, so that the workers
of one iteration agree where it begins, and the main process knows that its own position says nothing any more.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from typing import Any

from torch.utils.data import get_worker_info

from shardkit.digest import mix64

_TOKEN_BITS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    number: int
    num_workers: int
    iteration: int
    """How many iterations of the DataLoader came before this one, since the loader was last placed."""


class Hosting:
    """Shared by a loader and its copies in worker processes, however these were started."""

    def __init__(self) -> None:
        # An anonymous piece of shared memory: it has no name that could outlive a killed process.
        self._shared: Any = RawValue(ctypes.c_int64)
        self._begun = 0

    @property
    def hosted(self) -> bool:
        """Whether workers have begun to iterate since the loader was last placed."""
        return bool(self._shared.value)

    @property
    def iteration(self) -> int:
        """Number of the newest iteration of the workers, from 0."""
        count: int = self._shared.value >> _TOKEN_BITS
        return max(count, 1) - 1

    def reset(self) -> None:
        """The loader was placed anew: the next iteration of its workers begins there."""
        self._shared.value = 0

    def join(self) -> Worker | None:
        """Begin an iteration in a worker; None in a process that is none."""
        info = get_worker_info()
        if info is None:
            return None
        # Workers of one iteration share the seed below and have begun equally often. Each finds either the number of
        # the iteration before or, where another was faster, this one's; so all write the same, and need no lock.
        base_seed = info.seed - info.id
        token = mix64(base_seed, self._begun, "iteration") >> (64 - _TOKEN_BITS)
        self._begun += 1
        count, latest = divmod(self._shared.value, 1 << _TOKEN_BITS)
        if latest != token or not count:
            count += 1
            self._shared.value = (count << _TOKEN_BITS) | token
        return Worker(number=info.id, num_workers=info.num_workers, iteration=count - 1)
