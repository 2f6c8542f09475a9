"""Evaluation: every sequence of a split once, in the order it is stored, with what a loss is to be reported by.

with EvaluationLoader(dataset, split="val", packed=False) as loader:
    for batch in loader:
        losses = model(batch)                               [1, T], of the targets in batch.shift_labels
        sums = sums_by_sequence(batch, losses)              [S]
        for source, example, about, sum in zip(batch.sources, batch.ids, batch.metadata, sums): ...
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from shardkit.errors import ConfigError
from shardkit.loader.assemble import Assembler
from shardkit.loader.batch import HostBatch
from shardkit.loader.choices import check_choice, choose_rank
from shardkit.loader.device import IGNORE, Batch
from shardkit.loader.metrics import Meter, Metrics
from shardkit.loader.reader import Reader, check_files
from shardkit.loader.stream import AHEAD, MAX_THREADS, ON_BAD, VERIFY, num_cores
from shardkit.sequence.plan import PlanSettings
from shardkit.sequence.plan.source import NEVER_SPLIT, choose_split, identity, read_lengths
from shardkit.sequence.plan.stored_order import StoredOrder
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings


class EvaluationLoader(IterableDataset[Any]):
    """The batches of a split in a fixed order: the same for every seed, epoch, world size and worker count.

    Each iteration begins at the first one. A batch has the examples' metadata beside their ids and sources. All ranks
    take the same number of steps: the last global batch is filled up with empty packs, and no sequence comes twice.

    In the workers of a `torch.utils.data.DataLoader(loader, batch_size=None)` it gives `HostBatch`es.

    Args:
        dataset: what `shardkit tokenize` wrote, or its path.
        split: `val` where the dataset is split, everything where it never was.
        max_tokens: of a pack; what the sequences were cut to where not given.
        packed: several sequences a pack; else one each, in the order they are stored.
        global_batch: packs of a step over all ranks; a multiple of the world size.
        rank: data-parallel rank; with `world_size` from the environment of torchrun where not given, else 0 of 1.
        verify, on_bad, device: as for StreamingLoader.

    Raises:
        ConfigError: where settings and dataset do not fit.
        IntegrityError: where a shard is missing or of another size.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        *,
        split: str | None = None,
        max_tokens: int | None = None,
        packed: bool = True,
        global_batch: int = 1,
        rank: int | None = None,
        world_size: int | None = None,
        verify: Verify = "read",
        on_bad: str = "raise",
        device: torch.device | str = "cpu",
        remote: RemoteSettings | None = None,
    ) -> None:
        super().__init__()
        check_choice("verify", verify, VERIFY)
        check_choice("on_bad", on_bad, ON_BAD)
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, remote=remote)
        if split is None and self._dataset.splits != NEVER_SPLIT:
            split = "val"
        self._split = choose_split(self._dataset, split)
        self._settings = PlanSettings(
            max_tokens=self._dataset.recipe["max_tokens"] if max_tokens is None else max_tokens,
            global_batch=global_batch,
            packer="best-fit" if packed else "none",
        )
        self._rank = choose_rank(rank, world_size, global_batch)
        self._verify: Verify = verify
        self._on_bad = on_bad
        self._device = torch.device(device)
        check_files(self._dataset, self._split)
        self._plan = self._planned()
        self._meter = Meter()
        self._closed = False

    def __len__(self) -> int:
        """Batches of every rank; takes a planning pass."""
        return self._plan.num_steps

    def __iter__(self) -> Iterator[Any]:
        if self._closed:
            raise ConfigError("the loader was closed", hint="make a new one")
        return self._own() if get_worker_info() is None else self._hosted()

    def metrics(self, *, restart: bool = False) -> Metrics:
        """What was delivered and what it cost; see StreamingLoader.metrics."""
        found = self._meter.metrics()
        if restart:
            self._meter.start()
        return found

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> EvaluationLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own(self) -> Iterator[Batch]:
        for host in self._meter.waits(self._batches(0, 1, min(MAX_THREADS, num_cores()), AHEAD)):
            with self._meter.copy():
                batch = host.to_device(self._device)
            self._meter.add(batch)
            yield batch

    def _hosted(self) -> Iterator[HostBatch]:
        """Every n-th batch, so that the DataLoader, which asks its n workers in turn, restores the order."""
        worker = get_worker_info()
        assert worker is not None, "only workers are hosted"
        if self._device.type != "cpu":
            raise ConfigError(
                f"workers of a DataLoader cannot build batches on {self._device}",
                hint='set device="cpu" and call batch.to_device(device) where the batches arrive',
            )
        yield from self._batches(worker.id, worker.num_workers, 0, 0)

    def _batches(self, first: int, stride: int, threads: int, ahead: int) -> Iterator[HostBatch]:
        """Each iteration reads with an own reader, so that several may run at once."""
        reader = Reader(self._dataset, verify=self._verify)
        assembler = Assembler(
            self._plan,
            reader,
            self._rank,
            threads=threads,
            ahead=ahead,
            on_bad=self._on_bad,
            metadata=True,
            dataset=self._dataset.where,
            views=False,
        )
        try:
            yield from assembler.batches(islice(self._plan.steps(), first, None, stride))
        finally:
            assembler.close()
            reader.close()

    def _planned(self) -> StoredOrder:
        return StoredOrder(
            read_lengths(self._dataset, self._split), self._settings, identity=identity(self._dataset, self._split)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_plan"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._plan = self._planned()


def sums_by_sequence(batch: Batch, values: Tensor) -> Tensor:
    """Sums over the tokens of each sequence.

    Args:
        values: [1, T], such as the loss of each target in `shift_labels`; where there is no target nothing is added.

    Returns:
        [S], of the type of `values`.
    """
    targets_T = batch.shift_labels[0] != IGNORE
    values_T = torch.where(targets_T, values[0], values.new_zeros(()))
    counts_S = torch.diff(batch.sequence_starts).long()
    numbers_S = torch.arange(len(counts_S), device=values.device)
    sequence_D = torch.repeat_interleave(numbers_S, counts_S)
    return values.new_zeros(len(counts_S)).index_add(0, sequence_D[batch.seq_idx[0].long()], values_T)


def targets_by_sequence(batch: Batch) -> Tensor:
    """[S] int64, how many targets each sequence has: what its sum of losses is divided by."""
    return sums_by_sequence(batch, torch.ones_like(batch.shift_labels))
