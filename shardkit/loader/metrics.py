"""What a stream delivers and what it costs: counted batch by batch, told as rates, times and shares.

The figures of a batch travel with it (`BatchInfo.figures`), so they can be added up wherever batches arrive:

    loader.metrics()                          where the loader is iterated itself
    meter = Meter()                           behind workers of a DataLoader
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from shardkit.loader.batch import HostBatch
    from shardkit.loader.device import Batch
    from shardkit.loader.rows import Loaded

LATEST = 4096
"""Steps that percentiles are taken of: the most recent ones."""
Arrives = TypeVar("Arrives")
UNITS = ("examples", "sequences", "tokens", "supervised_tokens", "pixels")


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How much of each unit; pixels are those after processing, as the model gets them."""

    examples: int = 0
    """Distinct ones of each batch, added up."""
    sequences: int = 0
    tokens: int = 0
    supervised_tokens: int = 0
    """Tokens that are targets."""
    pixels: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{unit: getattr(self, unit) + getattr(other, unit) for unit in UNITS})


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Of one batch of one rank."""

    by_source: Mapping[str, Counts]
    capacity: int
    """Tokens that its packs have room for."""
    media_bytes: int
    """Encoded bytes that were decoded."""
    decode_seconds: float
    """Reading, decoding and resizing its pictures, added up over the threads."""
    pack_seconds: float
    """Reading its sequences and laying them out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Percentiles:
    p50: float
    p99: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Percentiles:
        found = np.fromiter(values, np.float64)
        p50, p99 = np.percentile(found, (50, 99)).tolist() if len(found) else (0.0, 0.0)
        return cls(p50=p50, p99=p99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics:
    """Since the first batch was asked for. All times are in seconds."""

    seconds: float
    steps: int
    totals: Counts
    media_bytes: int
    examples_per_second: float
    sequences_per_second: float
    tokens_per_second: float
    supervised_tokens_per_second: float
    pixels_per_second: float
    media_bytes_per_second: float
    wait_seconds: float
    """That the consumer waited for batches."""
    decode_seconds: float
    """Reading, decoding and resizing pictures, added up over the threads that did it."""
    pack_seconds: float
    """Reading sequences and laying them out."""
    copy_seconds: float
    """Bringing batches to the device and building them there; what a device does on its own time is not in it."""
    padding: float
    """Share of the packs' room for tokens that stayed empty. Nothing of it is on the device."""
    step: Percentiles
    """From one batch to the next, the consumer's own work included; of the latest 4,096 steps."""
    wait: Percentiles
    """For one batch; p99 is the tail that a device waits for. Of the latest 4,096 steps."""
    shares: Mapping[str, Mapping[str, float]]
    """Source -> unit -> its part of all that was delivered, from 0 to 1."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(kw_only=True, slots=True)
class Timing:
    """What is measured of a batch while it is made. Appending is one step of the interpreter, so threads may share it."""

    pack_seconds: float = 0.0
    decoded: list[tuple[int, float]] = field(default_factory=list)
    """(encoded bytes, seconds) of each picture."""


def figures(sequences: Sequence[Loaded], capacity: int, timing: Timing) -> Figures:
    """The figures of a batch of these sequences."""
    units: dict[str, list[int]] = {}
    examples: dict[str, set[str]] = {}
    for loaded in sequences:
        found = units.setdefault(loaded.source, [0, 0, 0, 0])
        sequence = loaded.sequence
        found[0] += 1
        found[1] += sequence.num_tokens
        found[2] += sequence.num_supervised
        found[3] += sequence.num_pixels
        examples.setdefault(loaded.source, set()).add(loaded.example_id)
    return Figures(
        by_source={
            source: Counts(
                examples=len(examples[source]),
                sequences=number,
                tokens=tokens,
                supervised_tokens=targets,
                pixels=pixels,
            )
            for source, (number, tokens, targets, pixels) in units.items()
        },
        capacity=capacity,
        media_bytes=sum(size for size, _ in timing.decoded),
        decode_seconds=sum(seconds for _, seconds in timing.decoded),
        pack_seconds=timing.pack_seconds,
    )


class Meter:
    """Adds up batches; its clock runs from the first one that is asked for.

    for batch in meter.waits(data_loader):
        with meter.copy():
            batch = batch.to_device(device)
        meter.add(batch)
    """

    def __init__(self) -> None:
        self._asked = False
        self.start()

    def start(self) -> None:
        """Forget everything, and let the clock run from now."""
        self._began = self._last = time.perf_counter()
        self._steps = self._capacity = self._media_bytes = 0
        self._by_source: dict[str, Counts] = {}
        self._wait = self._decode = self._pack = self._copy = 0.0
        self._waited = 0.0
        """For the batch that was not added yet."""
        self._step_times: deque[float] = deque(maxlen=LATEST)
        self._wait_times: deque[float] = deque(maxlen=LATEST)

    def waits(self, batches: Iterable[Arrives]) -> Iterator[Arrives]:
        """The same batches; the time that each is waited for is counted."""
        arriving = iter(batches)
        if not self._asked:
            self._asked = True
            self.start()
        while True:
            asked = time.perf_counter()
            try:
                batch = next(arriving)
            except StopIteration:
                return
            self._waited += time.perf_counter() - asked
            yield batch

    @contextmanager
    def copy(self) -> Iterator[None]:
        """Around what brings a batch to the device; the consumer waits for that too."""
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        self._copy += seconds
        self._waited += seconds

    def add(self, batch: Batch | HostBatch) -> None:
        """Count a batch that has arrived."""
        now = time.perf_counter()
        self._steps += 1
        self._step_times.append(now - self._last)
        self._wait_times.append(self._waited)
        self._wait += self._waited
        self._last, self._waited = now, 0.0
        found = batch.info.figures if batch.info else None
        if found is not None:
            self._capacity += found.capacity
            self._media_bytes += found.media_bytes
            self._decode += found.decode_seconds
            self._pack += found.pack_seconds
            for source, counts in found.by_source.items():
                self._by_source[source] = self._by_source.get(source, Counts()) + counts

    def metrics(self) -> Metrics:
        """Everything since the start."""
        seconds = time.perf_counter() - self._began
        totals = sum(self._by_source.values(), Counts())
        rates = {f"{unit}_per_second": getattr(totals, unit) / seconds for unit in UNITS}
        return Metrics(
            seconds=seconds,
            steps=self._steps,
            totals=totals,
            media_bytes=self._media_bytes,
            **rates,
            media_bytes_per_second=self._media_bytes / seconds,
            wait_seconds=self._wait,
            decode_seconds=self._decode,
            pack_seconds=self._pack,
            copy_seconds=self._copy,
            padding=1 - totals.tokens / self._capacity if self._capacity else 0.0,
            step=Percentiles.of(self._step_times),
            wait=Percentiles.of(self._wait_times),
            shares={source: _shares(counts, totals) for source, counts in sorted(self._by_source.items())},
        )


def _shares(part: Counts, whole: Counts) -> dict[str, float]:
    return {
        one.name: getattr(part, one.name) / getattr(whole, one.name) if getattr(whole, one.name) else 0.0
        for one in fields(Counts)
    }
