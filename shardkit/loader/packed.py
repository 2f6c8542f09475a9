"""What all loaders of packed batches do alike: batches on the device in this process, host buffers in a worker's.

StreamingLoader     stream.py            a dataset, from any place on
EvaluationLoader    evaluate.py          a split in the order it is stored, from its first batch on
ForeignLoader       foreign/stream.py    files that were never ingested
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.utils.data import IterableDataset, get_worker_info

from shardkit.engine.cores import num_cores
from shardkit.errors import ConfigError, SourceError
from shardkit.loader.assemble import Assembler
from shardkit.loader.batch import BatchInfo, HostBatch, Quarantined
from shardkit.loader.choices import check_choice, choose_device, choose_rank
from shardkit.loader.device import Batch
from shardkit.loader.hosting import Hosting, is_copied_to_worker
from shardkit.loader.metrics import Meter, Metrics
from shardkit.loader.quarantine import MAX_QUARANTINED, by_picture
from shardkit.loader.reader import Reader
from shardkit.loader.staging import Staging
from shardkit.sequence.plan import Plan, Step
from shardkit.sequence.plan.stored_order import StoredOrder
from shardkit.store.dataset import Dataset

if TYPE_CHECKING:
    from shardkit.loader.foreign.reader import ForeignReader

AHEAD = 2
"""Batches that are begun before they are asked for."""
MAX_THREADS = 4
"""That decode pictures; no more than cores."""
ON_BAD = ("raise", "quarantine")
VERIFY = ("read", "open", "off")

Loader = TypeVar("Loader", bound="PackedLoader")


class PackedLoader(IterableDataset[Any]):
    """Carries out a plan. A kind of loader says which one, which steps of it, and what reads them.

    Args:
        rank, world_size, global_batch, on_bad, device: see StreamingLoader.
    """

    _metadata = False
    """Whether batches carry the metadata of their examples."""
    _views = True
    """Whether pictures are shown in random views, where their processor has any."""
    _decoded_by = ""
    """Identity of the decoder that states bind, where there are states."""
    _rebuilt: tuple[str, ...] = ("_plan", "_staging", "_reader", "_assembler")
    """What a copy in another process makes itself."""

    _plan: Plan | StoredOrder
    _dataset: Dataset | None = None
    """What batches are read from, where that is a dataset."""

    def __init__(
        self, *, rank: int | None, world_size: int | None, global_batch: int, on_bad: str, device: torch.device | str
    ) -> None:
        super().__init__()
        check_choice("on_bad", on_bad, ON_BAD)
        self._rank = choose_rank(rank, world_size, global_batch)
        self._on_bad = on_bad
        self._device = choose_device(device)
        self._staging = Staging(self._device)
        self._hosting = Hosting()
        self._meter = Meter()
        self._quarantine: dict[tuple[int, int, int], Quarantined] = {}
        self._reader: Reader | ForeignReader | None = None
        self._assembler: Assembler | None = None
        self._process = os.getpid()
        self._closed = False

    # ------------------------------------------------------------------ of each kind
    def _own(self) -> Iterator[Batch]:
        """What an iteration in this process gives."""
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    def _hosted(self) -> Iterator[HostBatch]:
        """What an iteration gives in a worker: every n-th batch, so that the DataLoader, which asks its n workers in
        turn, restores the order."""
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    def _open(self) -> Reader | ForeignReader:
        """What reads the sequences of the plan."""
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    def _make_plan(self) -> None:
        """Set `_plan`, in a copy."""
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    @property
    def _where(self) -> str:
        """What is read, by its path, URL or name."""
        return "" if self._dataset is None else self._dataset.where

    # ------------------------------------------------------------------ iteration
    def __iter__(self) -> Iterator[Any]:
        self._check_open()
        if get_worker_info() is not None:
            return self._hosted()
        if self._hosting.elsewhere:
            self._meter = Meter()  # what was counted before workers had their turn is none of this iteration
        self._hosting.begin_here()
        return self._own()

    def _delivered(self, steps: Iterable[Step]) -> Iterator[Batch]:
        """The batches of `steps` on the device, counted."""
        for host in self._meter.waits(self._assemble().batches(steps)):
            with self._meter.copy():
                host = self._staging.decode(host)
                batch = self._staging.put(host)
            self._note(host.info)
            self._meter.add(batch)
            yield batch
            self._check_open()

    def _handed_over(self, steps: Iterable[Step]) -> Iterator[HostBatch]:
        """The batches of `steps`, from a worker to the process that it works for."""
        if self._device.type != "cpu":
            raise ConfigError(
                f"workers of a DataLoader cannot build batches on {self._device}",
                hint='set device="cpu" and call batch.to_device(device) where the batches arrive',
            )
        for host in self._assemble().batches(steps):
            self._note(host.info)
            yield host
            self._check_open()

    def _assemble(self) -> Assembler:
        self._check_open()
        self._leave_parent()
        if self._reader is None:
            self._reader = self._open()
        if self._assembler is None:
            # Workers of a DataLoader are the parallel part already, and it asks ahead itself.
            hosted = get_worker_info() is not None
            self._assembler = Assembler(
                self._plan,
                self._reader,
                self._rank,
                threads=0 if hosted else min(MAX_THREADS, num_cores()),
                ahead=0 if hosted else AHEAD,
                on_bad=self._on_bad,
                decoder=self._decoded_by,
                metadata=self._metadata,
                dataset=self._dataset,
                views=self._views,
            )
        return self._assembler

    def _note(self, info: BatchInfo) -> None:
        """Remember what a batch masked."""
        self._quarantine |= by_picture(info.quarantined)
        if len(self._quarantine) > MAX_QUARANTINED:
            raise SourceError(
                f"{len(self._quarantine)} pictures cannot be decoded; a rank masks {MAX_QUARANTINED} at most",
                where=self._where,
                hint="build the dataset again with this version, which leaves out what it cannot decode",
            )

    def metrics(self, *, restart: bool = False) -> Metrics:
        """What was delivered since the first batch was asked for, and what it cost.

        Args:
            restart: count anew from here on, as for one log line after another.

        Raises:
            ConfigError: in a process whose workers have handed out the latest batches.
        """
        if self._hosting.elsewhere:
            raise ConfigError(
                "workers of a DataLoader hand out the batches, so this process does not see them",
                hint="count each batch where it arrives with shardkit.loader.Meter",
            )
        found = self._meter.metrics()
        if restart:
            self._meter.start()
        return found

    # ------------------------------------------------------------------ end, and copies
    def close(self) -> None:
        """Stop the threads and let go of the shards; the loader keeps its place and can still tell it."""
        self._leave_parent()
        self._closed = True
        self._drop_assembler()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __enter__(self: Loader) -> Loader:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, (Exception, GeneratorExit)):
            self.close()
            return
        # Interrupted. A thread that fetches a shard gives up when the process ends, and needs the reader until then.
        self._closed = True
        if self._assembler is not None:
            self._assembler.close(wait=False)
        self._reader = self._assembler = None

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigError(
                "the loader was closed", hint="make a new one; it can go on from the state of the old one"
            )

    def _leave_parent(self) -> None:
        """In a copy made by fork: the threads stayed with the other process, and with them whoever holds a lock."""
        if self._process != os.getpid():
            self._process, self._reader, self._assembler = os.getpid(), None, None

    def _drop_assembler(self) -> None:
        self._leave_parent()
        if self._assembler is not None:
            self._assembler.close()
            self._assembler = None

    def __getstate__(self) -> dict[str, Any]:
        # Workers that are being started share the hosting; any other copy shares nothing.
        left = self._rebuilt if is_copied_to_worker() else (*self._rebuilt, "_hosting")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"_hosting": Hosting(), **state})
        self._process = os.getpid()
        self._staging = Staging(self._device)
        self._reader = self._assembler = None
        self._make_plan()
