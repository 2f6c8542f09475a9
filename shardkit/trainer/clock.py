"""Where the time of a step goes, and how long steps take.

data          waiting for batches
pack          bringing them to the device and building them there, patches of pictures too
encoder       the vision tower, forward, without its attention
attention     of the tower and of the language model, forward
forward       the rest of it: matrices of the language model, loss
backward      gradients; in some steps those of each objective alone, too
communication sums over ranks
update        clipping and optimizer

Times are the host's. On a device that computes on its own, they say how long the host was held up, not what was computed.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from shardkit.loader import StreamingLoader
from shardkit.trainer.layers import Attend
from shardkit.trainer.model import VisionLanguage

PARTS = ("data", "pack", "encoder", "attention", "forward", "backward", "communication", "update")
LATEST = 100
"""Steps that percentiles are taken of."""


class Clock:
    """Measures one step after the other; a moment belongs to the part that was entered last.

    Args:
        model: its tower and its attention are parts of their own.
        loaders: what they tell of building batches is taken out of the part `data`.
    """

    def __init__(self, model: VisionLanguage, loaders: Sequence[StreamingLoader] = ()) -> None:
        self._loaders, self._device = loaders, model.device
        self._packed = 0.0
        """Seconds that the loaders have built batches for, before this step."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._entered: list[str] = []
        self._steps: deque[float] = deque(maxlen=LATEST)
        self._began = self._last = time.perf_counter()
        if model.vision is not None:
            model.vision.register_forward_pre_hook(lambda *_: self._enter("encoder"))
            model.vision.register_forward_hook(lambda *_: self._leave())
        model.attend = self._timed(model.attend)

    def start(self) -> None:
        """A step begins."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._entered.clear()
        self._packed = self._building()
        self._began = self._last = time.perf_counter()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What happens inside belongs to `name`, but for what belongs to a part inside it."""
        self._enter(name)
        try:
            yield
        finally:
            self._leave()

    def stop(self) -> dict[str, object]:
        """The step ends: its seconds, the seconds of each part, percentiles of the latest steps, the peak of memory."""
        seconds = time.perf_counter() - self._began
        building = self._building() - self._packed
        self._seconds["pack"] += building
        self._seconds["data"] -= building
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
            **self._on_device(),
        }

    def _on_device(self) -> dict[str, object]:
        if self._device.type != "cuda":
            return {}
        return {"peak_device_memory_mb": round(torch.cuda.max_memory_allocated(self._device) / 1e6)}

    def _enter(self, name: str) -> None:
        self._charge()
        self._entered.append(name)

    def _leave(self) -> None:
        self._charge()
        if self._entered:  # not so where the model is used outside of a step
            self._entered.pop()

    def _charge(self) -> None:
        """What went by since the last look belongs to the part that was entered last."""
        now = time.perf_counter()
        if self._entered:
            self._seconds[self._entered[-1]] += now - self._last
        self._last = now

    def _timed(self, attend: Attend) -> Attend:
        def timed(*rows: object, **options: object) -> Tensor:
            with self.part("attention"):
                return attend(*rows, **options)

        return timed

    def _building(self) -> float:
        return sum(loader.metrics().copy_seconds for loader in self._loaders)
