"""From the host to the device: copies that run beside the computation.

    host batch -> pinned buffer of the ring -> copy stream -> device buffers -> build(), on the stream of the caller

A buffer of the ring is used again when the copy out of it is done, which its event says; nobody waits unless the host is a
whole ring ahead. Where there is no CUDA a batch is built from the memory it lies in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch import Tensor

from shardkit.errors import ConfigError
from shardkit.loader.batch import HostBatch, Sizes
from shardkit.loader.device import Batch, build
from shardkit.loader.jpegs import decoded

DEPTH = 3
"""Buffers of the ring: one is filled, one is copied, one belongs to the batch in use."""


@dataclass(kw_only=True, eq=False)
class _Slot:
    """A pinned buffer for each part of a batch; grown where a batch is larger than those before it."""

    meta: Tensor
    pixels: Tensor
    copied: torch.cuda.Event | None = None
    """When what lies here was copied out."""

    def fill(self, name: str, source: Tensor) -> Tensor:
        """`source` in pinned memory, where it is not on the device already."""
        if source.is_cuda or source.is_pinned():
            return source
        buffer: Tensor = getattr(self, name)
        if len(buffer) < len(source):
            # A quarter more, so that batches of about one size do not grow it again and again.
            buffer = torch.empty(len(source) * 5 // 4, dtype=source.dtype, pin_memory=True)
            setattr(self, name, buffer)
        return buffer[: len(source)].copy_(source)


class Staging:
    """Puts host batches on a device, one after the other.

    Args:
        device: where batches are built.
        depth: buffers of the ring.
    """

    def __init__(self, device: torch.device | str, *, depth: int = DEPTH) -> None:
        self._device = torch.device(device)
        self._depth = depth
        self._reached = False
        """Whether the device was asked for."""
        self._stream: torch.cuda.Stream | None = None
        self._slots: Iterator[_Slot] = iter(())

    def decode(self, host: HostBatch) -> HostBatch:
        """The batch with its pictures decoded on the device, where that is left to it; beside what the caller does there.

        Raises:
            ConfigError: where the device is not at hand; see also shardkit.loader.jpegs.decoded.
        """
        self._reach()
        if host.encoded is None or self._device.type != "cuda":
            return decoded(host, self._device)
        with torch.cuda.stream(self._begin()):
            return decoded(host, self._device)

    def put(self, host: HostBatch) -> Batch:
        """The batch on the device; what is done with it there waits for the copy, the host does not.

        Raises:
            ConfigError: where the device is not at hand.
        """
        self._reach()
        if self._device.type != "cuda":
            return host.to_device(self._device)
        stream = self._begin()
        slot = next(self._slots)
        if slot.copied is not None:
            slot.copied.synchronize()
        parts = (slot.fill("meta", host.meta), slot.fill("pixels", host.pixels))
        with torch.cuda.stream(stream):
            meta, pixels = (part.to(self._device, non_blocking=True) for part in parts)
            slot.copied = stream.record_event()
        current = torch.cuda.current_stream(self._device)
        current.wait_event(slot.copied)
        for part in (meta, pixels):
            # Made on the copy stream, used on this one: not to be given away before this one is done with it.
            part.record_stream(current)
        return replace(build(meta, pixels, Sizes.of(host.meta)), info=host.info)

    def _reach(self) -> None:
        # With the first batch: a loader may be made, and copied to workers, where the device is not at hand.
        if self._reached:
            return
        try:
            torch.empty(0, device=self._device)
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            raise ConfigError(
                f"batches cannot be built on {self._device}: {str(error).splitlines()[0]}",
                hint="set device to one that torch has here; cpu always is",
            ) from error
        self._reached = True

    def _begin(self) -> torch.cuda.Stream:
        """The stream of the copies."""
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # torch leaves it without types
            none = torch.empty(0, dtype=torch.uint8)
            self._slots = cycle([_Slot(meta=none, pixels=none) for _ in range(self._depth)])
        return self._stream
