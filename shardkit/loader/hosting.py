"""Which worker of torch's DataLoader this process is, and which iteration its workers are in.

The loader of the main process never sees its workers' copies move. All copies share two numbers, so that the workers
of one iteration agree where it begins, and the main process knows that its own place says nothing any more.
"""

from __future__ import annotations

import ctypes
import multiprocessing.context
from dataclasses import dataclass
from multiprocessing.sharedctypes import RawValue
from typing import Any

from torch.utils.data import get_worker_info

from shardkit.digest import mix64
from shardkit.errors import ConfigError

_TOKEN_BITS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    number: int
    num_workers: int
    iteration: int
    """How many iterations of the DataLoader came before this one, since the loader was last placed."""
    epochs: int
    """How many epochs after the loader's place this iteration begins."""


class Hosting:
    """Shared by a loader and its copies in worker processes, however these were started."""

    def __init__(self) -> None:
        # Anonymous shared memory: it has no name that could outlive a killed process.
        self._latest: Any = RawValue(ctypes.c_int64)
        """Count and token of the newest iteration of the workers; 0 before the first."""
        self._placed: Any = RawValue(ctypes.c_int64)
        """How often the main process has placed the loader."""
        self._shift: Any = RawValue(ctypes.c_int64)
        """Epochs that the workers are ahead of what they would be, because they were restored; see `shift`."""
        self._workers: Any = RawValue(ctypes.c_int64)
        """How many workers the newest iteration has."""
        self._seen = 0
        """How often it was placed, as this copy knows it."""
        self._begun = 0
        self._here = 0
        """`_latest` when this process began to iterate itself; 0 before."""

    @property
    def hosted(self) -> bool:
        """Whether workers have begun to iterate since the loader was last placed."""
        return bool(self._latest.value)

    @property
    def elsewhere(self) -> bool:
        """Whether the newest iteration is one of workers, and not of the process that asks."""
        return self._latest.value not in (0, self._here)

    def begin_here(self) -> None:
        """An iteration begins in this process."""
        self._here = self._latest.value

    @property
    def num_workers(self) -> int:
        """Of the DataLoader that hosts the loader; 0 for none."""
        return int(self._workers.value)

    @property
    def epochs(self) -> int:
        """Epochs that the workers are ahead of the place of the main process."""
        count: int = self._latest.value >> _TOKEN_BITS
        return max(count, 1) - 1 + int(self._shift.value)

    def shift(self, epochs: int) -> None:
        """Workers were restored: later iterations begin so many epochs further on. All write the same."""
        self._shift.value = epochs

    def place(self) -> None:
        """The loader was placed anew: the next iteration of new workers begins there."""
        self._seen += 1
        self._placed.value = self._seen
        self._here = 0
        self._latest.value = 0
        self._shift.value = 0
        self._workers.value = 0

    def join(self) -> Worker:
        """Begin an iteration in a worker.

        Raises:
            ConfigError: in a worker that lives on while the loader it was made from was placed elsewhere.
        """
        info = get_worker_info()
        assert info is not None, "only workers join"
        if self._placed.value != self._seen:
            raise ConfigError(
                "the loader was placed anew, and persistent workers keep the place they began with",
                hint="make a new DataLoader after load_state_dict or set_epoch, or leave persistent_workers out",
            )
        # Workers of one iteration share the seed below and have begun equally often. Each finds either the number of
        # the iteration before or, where another was faster, this one's; so all write the same, and need no lock.
        self._workers.value = info.num_workers
        base_seed = info.seed - info.id
        token = mix64(base_seed, self._begun, "iteration") >> (64 - _TOKEN_BITS)
        self._begun += 1
        count, latest = divmod(self._latest.value, 1 << _TOKEN_BITS)
        if latest != token or not count:
            count += 1
            self._latest.value = (count << _TOKEN_BITS) | token
        return Worker(
            number=info.id, num_workers=info.num_workers, iteration=count - 1, epochs=count - 1 + int(self._shift.value)
        )


def is_copied_to_worker() -> bool:
    """Whether what is pickled just now goes to a process that is being started, not to a file or a copy."""
    return multiprocessing.context.get_spawning_popen() is not None
