"""Preference pairs one by one, unpacked, for trainers that know no packs.

for step in torch.utils.data.DataLoader(Pairs("work/pairs", max_tokens=1024), batch_size=8): ...
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from shardkit.loader.reader import Reader, check_files
from shardkit.sequence.pairs import six_arrays
from shardkit.sequence.plan.source import choose_split, read_lengths
from shardkit.sequence.sequence import Sequence
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset


def six_tensors(pairs: Iterable[Sequence], *, max_tokens: int | None = None, pad: int = 0) -> dict[str, torch.Tensor]:
    """`six_arrays` as int64 tensors, [number of pairs, max_tokens - 1] each.

    Raises:
        ConfigError: where a sequence is no pair, or a document is longer than `max_tokens`.
    """
    arrays = six_arrays(list(pairs), max_tokens=max_tokens, pad=pad)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


class Pairs(TorchDataset[dict[str, torch.Tensor]]):
    """The pairs of one pass over a dataset of the recipe dpo, in the order in which they are stored.

    Args:
        path: the dataset.
        split: None is `train`, or everything of a dataset that was never split.
        max_tokens: tokens that every document is filled up to; None is the longest that tokenize allowed.
        pad: id that fills them.
        epoch: the pass. Where passes differ, each has its own alternatives; make another `Pairs` for the next one.
        verify: what is checked: see StreamingLoader.

    Raises:
        ConfigError: where the dataset holds no pairs.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        split: str | None = None,
        max_tokens: int | None = None,
        pad: int = 0,
        epoch: int = 0,
        verify: Verify = "read",
    ) -> None:
        self._dataset = Dataset.open(Path(path))
        chosen = choose_split(self._dataset, split)
        check_files(self._dataset, chosen)
        lengths = read_lengths(self._dataset, chosen)
        rows = np.arange(len(lengths))
        if lengths.period is not None and lengths.turn is not None:
            rows = np.flatnonzero(epoch % lengths.period == lengths.turn)
        self._places = list(zip(lengths.shard[rows].tolist(), lengths.row[rows].tolist(), strict=True))
        self._max_tokens = int(self._dataset.recipe["max_tokens"]) if max_tokens is None else max_tokens
        self._pad = pad
        self._verify: Verify = verify
        self._reader: Reader | None = None

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Six tensors [max_tokens - 1]."""
        if self._reader is None:
            self._reader = Reader(self._dataset, verify=self._verify)
        sequence = self._reader.sequence(*self._places[index]).sequence
        return {
            name: tensor[0]
            for name, tensor in six_tensors([sequence], max_tokens=self._max_tokens, pad=self._pad).items()
        }

    def __getstate__(self) -> dict[str, object]:
        # A worker opens the shards itself.
        return {**self.__dict__, "_reader": None}
