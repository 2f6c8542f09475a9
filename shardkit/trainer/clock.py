"""Where the time of a step goes, and how long steps take.

data          waiting for batches
encoder       the vision tower, forward
forward       the rest of it: language model and loss
backward      gradients
communication sums over ranks
update        clipping and optimizer

Times are the host's. On a device that computes on its own, they say how long the host was held up, not what was computed.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import nn

PARTS = ("data", "encoder", "forward", "backward", "communication", "update")
LATEST = 100
"""Steps that percentiles are taken of."""


class Clock:
    """Measures one step after the other.

    Args:
        encoder: its forward passes are taken out of the part that they happen in.
    """

    def __init__(self, encoder: nn.Module | None) -> None:
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._steps: deque[float] = deque(maxlen=LATEST)
        self._began = self._entered = time.perf_counter()
        if encoder is not None:
            encoder.register_forward_pre_hook(self._enter)
            encoder.register_forward_hook(self._leave)

    def start(self) -> None:
        """A step begins."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._began = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What happens inside belongs to `name`."""
        began, encoder = time.perf_counter(), self._seconds["encoder"]
        try:
            yield
        finally:
            inside = self._seconds["encoder"] - encoder
            self._seconds[name] += time.perf_counter() - began - inside

    def stop(self) -> dict[str, object]:
        """The step ends: its seconds, the seconds of each part, percentiles of the latest steps, the peak of memory."""
        seconds = time.perf_counter() - self._began
        self._steps.append(seconds)
        p50, p99 = np.percentile(np.array(self._steps), (50, 99)).tolist()
        # Kibibytes on Linux, bytes on macOS.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {
            "seconds": round(seconds, 6),
            "seconds_by_part": {name: round(spent, 6) for name, spent in self._seconds.items()},
            "step_p50": round(p50, 6),
            "step_p99": round(p99, 6),
            "peak_memory_mb": round(peak / 1e6),
        }

    def _enter(self, *_: object) -> None:
        self._entered = time.perf_counter()

    def _leave(self, *_: object) -> None:
        self._seconds["encoder"] += time.perf_counter() - self._entered
