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

import torch
from torch import Tensor

from shardkit.loader.batch import HostBatch
from shardkit.loader.choices import check_choice
from shardkit.loader.device import IGNORE, Batch
from shardkit.loader.packed import VERIFY, PackedLoader
from shardkit.loader.reader import Reader, check_files
from shardkit.loader.trace import remember
from shardkit.sequence.plan import PlanSettings
from shardkit.sequence.plan.source import NEVER_SPLIT, choose_split, identity, read_lengths
from shardkit.sequence.plan.stored_order import StoredOrder
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings


class EvaluationLoader(PackedLoader):
    """The batches of a split in a fixed order: the same for every seed, epoch, world size and worker count.

    Each iteration begins at the first one. A batch has the examples' metadata beside their ids and sources. All ranks
    take the same number of steps: the last global batch is filled up with empty packs, and no sequence comes twice.

    In the workers of a `torch.utils.data.DataLoader(loader, batch_size=None)` it gives `HostBatch`es.

    Args:
        dataset: what `shardkit tokenize` wrote, or its path.
        split: `val` where the dataset is split, everything where it never was.
        max_tokens: of a pack; what the sequences were cut to where not given. Likewise max_images, max_patches and
            max_attention (pairs of tokens), where given.
        packed: several sequences a pack; else one each, in the order they are stored.
        global_batch: packs of a step over all ranks; a multiple of the world size.
        rank: data-parallel rank; with `world_size` from the environment of torchrun where not given, else 0 of 1.
        verify, on_bad, device: as for StreamingLoader.

    Raises:
        ConfigError: where settings and dataset do not fit.
        IntegrityError: where a shard is missing or of another size.
    """

    _plan: StoredOrder
    _dataset: Dataset
    _metadata = True
    _views = False

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        *,
        split: str | None = None,
        max_tokens: int | None = None,
        max_images: int | None = None,
        max_patches: int | None = None,
        max_attention: int | None = None,
        packed: bool = True,
        global_batch: int = 1,
        rank: int | None = None,
        world_size: int | None = None,
        verify: Verify = "read",
        on_bad: str = "raise",
        device: torch.device | str = "cpu",
        remote: RemoteSettings | None = None,
    ) -> None:
        super().__init__(rank=rank, world_size=world_size, global_batch=global_batch, on_bad=on_bad, device=device)
        check_choice("verify", verify, VERIFY)
        self._dataset = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, remote=remote)
        if split is None and self._dataset.splits != NEVER_SPLIT:
            split = "val"
        self._split = choose_split(self._dataset, split)
        self._settings = PlanSettings(
            max_tokens=self._dataset.recipe["max_tokens"] if max_tokens is None else max_tokens,
            max_images=max_images,
            max_patches=max_patches,
            max_attention=max_attention,
            global_batch=global_batch,
            packer="best-fit" if packed else "none",
        )
        self._verify: Verify = verify
        check_files(self._dataset, self._split)
        self._make_plan()

    def __len__(self) -> int:
        """Batches of every rank; takes a planning pass."""
        return self._plan.num_steps

    def _own(self) -> Iterator[Batch]:
        return self._delivered(self._plan.steps())

    def _hosted(self) -> Iterator[HostBatch]:
        worker = self._hosting.join()
        yield from self._handed_over(islice(self._plan.steps(), worker.number, None, worker.num_workers))

    def _open(self) -> Reader:
        return Reader(self._dataset, verify=self._verify)

    def _make_plan(self) -> None:
        remember(self._dataset)
        self._plan = StoredOrder(
            read_lengths(self._dataset, self._split), self._settings, identity=identity(self._dataset, self._split)
        )


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
