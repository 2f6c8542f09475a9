"""What the peers share: lists of samples, the transform behind an index, torchdata's loader for those without a state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from loader_samples import BATCH, Transform

SHARD = 1000
"""Samples a shard."""
RAW = Transform("raw")


def as_list(batch: list[Any]) -> list[Any]:
    return batch


class Mapped:
    """The transform behind a data set by index."""

    def __init__(self, rows: Any, transform: Transform, sample: Any) -> None:
        self.rows, self.transform, self.sample = rows, transform, sample

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.sample(self.rows[index]))


def data_loader(rows: Any, workers: int, **more: Any) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(rows, batch_size=BATCH, num_workers=workers, collate_fn=as_list, **more)


def stateful(rows: Any, **more: Any) -> Any:
    """torchdata's loader around a data set, and (keys of each batch, what tells its state)."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    return StatefulDataLoader(rows, batch_size=BATCH, num_workers=0, collate_fn=as_list, **more)


def keys_of(batches: Iterable[list[Any]]) -> Iterator[list[str]]:
    for batch in batches:
        yield [sample[0] for sample in batch]


def stateful_resumption(made: Any, state: Any) -> tuple[Iterator[list[str]], Any]:
    if state is not None:
        made.load_state_dict(state)
    return keys_of(made), made.state_dict
