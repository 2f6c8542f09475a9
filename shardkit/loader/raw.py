"""Rows as they are stored, in the order in which plans draw them: for a decoder or a trainer of one's own.

RawSequenceLoader    id, token ids, stored pictures      of what `shardkit tokenize` wrote
RawExampleLoader     id, segments, stored pictures       of any dataset

    global batches   0 1 2 3 | 4 5 6 7 | 8 9        of 4 rows of an epoch of 10
    rank 1 of 2        1   3     5   7     9

A state is a place in the order of all ranks: the rows of an epoch that are done. So ranks, and the size of a batch, may
change with a restart.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from shardkit.errors import ConfigError, ResumeError
from shardkit.loader import state as states
from shardkit.loader.choices import check_choice, check_epochs, choose_rank
from shardkit.loader.packed import VERIFY
from shardkit.loader.reader import check_files
from shardkit.loader.rows import RawExample, RawSequence
from shardkit.loader.shards import Shards
from shardkit.loader.state import Promise, State
from shardkit.sequence.plan import Lengths, PlanSettings
from shardkit.sequence.plan import order as ordering
from shardkit.sequence.plan.source import choose_split, named_split, read_examples, read_lengths
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.remote import RemoteSettings

logger = logging.getLogger("shardkit.loader")

VERSION = 1
_DRAWN = 4096
"""Rows whose places are looked up at a time."""

Row = TypeVar("Row", RawSequence, RawExample)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    epoch: int
    position: int
    """Rows of the epoch, over all ranks, that were handed out."""


class _RawLoader(Generic[Row]):
    """Batches of rows from the loader's place to the end of its epoch (of `epochs` epochs, where given).

    Iterating leaves the loader behind what it gave: the next iteration goes on. Every rank has the same number of batches
    and every row comes once an epoch, so the last batch of an epoch may be smaller, on some ranks by one row, or empty.

    A process reads for itself. Workers of a DataLoader are ranks like others: make a loader in each, of rank
    `rank * num_workers + worker` of `world_size * num_workers`.

    Args:
        dataset: its path or URL.
        split: train where the dataset is split, everything where it never was.
        global_batch: rows of a step over all ranks; a multiple of the world size.
        rank: with `world_size` from the environment of torchrun where not given, else 0 of 1.
        epochs: after so many, iterating gives nothing more.
        copy: pictures as bytes of their own, which may stay or go to other processes; else as views of their shards.
        verify: read | open | off: compare each block of rows before its first use, whole shards, sizes only.
        remote: how a dataset behind a URL is reached, and the cache of its shards on this host.

    Raises:
        ConfigError: where settings and dataset do not fit.
        IntegrityError: where a shard is missing or of another size.
    """

    _rows: str

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        *,
        global_batch: int,
        split: str | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        epochs: int | None = None,
        copy: bool = False,
        verify: Verify = "read",
        remote: RemoteSettings | None = None,
    ) -> None:
        check_choice("verify", verify, VERIFY)
        # No packs are made; what else a plan is asked for is asked for here.
        settings = PlanSettings(max_tokens=1, packer="none", global_batch=global_batch, seed=seed)
        self._global_batch = global_batch
        self._rank = choose_rank(rank, world_size, global_batch)
        self._epochs = check_epochs(epochs)
        self._copy = copy
        opened = dataset if isinstance(dataset, Dataset) else Dataset.open(dataset, remote=remote)
        chosen, self._lengths = self._of(opened, split)
        check_files(opened, chosen)
        self._order = ordering.Order(
            self._lengths, np.arange(len(self._lengths)), seed=settings.seed, window=settings.window
        )
        self._shards = Shards(opened, verify=verify)
        self._bound: State = {
            "dataset": opened.id,
            "split": chosen,
            "rows": self._rows,
            "seed": settings.seed,
            "window": settings.window,
            "order_version": ordering.VERSION,
        }
        self._place = _Place(epoch=0, position=0)
        self._closed = False

    def _of(self, dataset: Dataset, split: str | None) -> tuple[str, Lengths]:
        """The split that is meant, and its rows."""
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    def _read(self, shards: list[int], rows: list[int]) -> list[Row]:
        raise NotImplementedError  # what each kind of loader says; this class alone is none

    def __len__(self) -> int:
        """Batches of the epoch that the loader is in, or of all `epochs` where given; the same on every rank."""
        epochs = [self._place.epoch] if self._epochs is None else range(self._epochs)
        return sum(math.ceil(self._order.size(epoch) / self._global_batch) for epoch in epochs)

    def __iter__(self) -> Iterator[list[Row]]:
        end = self._place.epoch + 1 if self._epochs is None else self._epochs
        while self._place.epoch < end:
            epoch = self._place.epoch
            for shards, rows, after in self._steps(self._place):
                if self._closed:
                    raise ConfigError("the loader was closed", hint="make a new one and load the state of the old one")
                batch = self._read(shards, rows)
                self._place = after
                yield batch
                if self._place is not after:
                    break  # it was placed anew
            else:
                if self._place.epoch == epoch:
                    self._place = _Place(epoch=epoch + 1, position=0)  # an epoch without a row

    def _steps(self, place: _Place) -> Iterator[tuple[list[int], list[int], _Place]]:
        """Of each global batch of an epoch from a place on: shards and rows of this rank's share, and the place behind."""
        size, step, rank = self._order.size(place.epoch), self._global_batch, self._rank
        many = max(_DRAWN // step, 1) * step
        for first in range(place.position, size, many):
            drawn = self._order.take(place.epoch, first, first + many)
            shards, rows = self._lengths.shard[drawn].tolist(), self._lengths.row[drawn].tolist()
            for start in range(0, len(drawn), step):
                own = slice(start + rank.rank, start + step, rank.world_size)
                behind = first + start + step
                yield (
                    shards[own],
                    rows[own],
                    _Place(epoch=place.epoch, position=behind)
                    if behind < size
                    else _Place(epoch=place.epoch + 1, position=0),
                )

    def state_dict(self) -> State:
        """The place behind the last batch that was handed out, as JSON; the same on every rank."""
        place = {"epoch": self._place.epoch, "position": self._place.position}
        return states.sealed({"version": VERSION, "place": place, "bound": self._bound})

    def load_state_dict(self, state: Mapping[str, Any]) -> Promise:
        """Go on from a saved place, also in the middle of an iteration.

        Raises:
            ResumeError: where the rows would come in another order; it names both sides of every difference.
        """
        parts = {"version": int, "place": Mapping, "bound": Mapping, "digest": str}
        saved: Any = state  # from a file: it may be anything
        if (
            not isinstance(saved, Mapping)
            or not all(isinstance(saved.get(name), kind) for name, kind in parts.items())
            or saved["version"] != VERSION
        ):
            raise ResumeError(
                f"this is no state of a loader of raw rows, or none of version {VERSION}",
                where="loader state",
                hint="give what state_dict() returned, to the shardkit that wrote it",
            )
        found = states.differences(state["bound"], self._bound)
        states.check_seal(dict(state), found)
        promise = Promise.UNRECOVERABLE if found else Promise.REPLAYABLE
        states.refuse_less(logger, promise, "replayable", found)
        self._place = _Place(**state["place"])
        states.log(logger, promise, found)
        return promise

    def close(self) -> None:
        """Let go of the shards; the loader keeps its place and can still tell it."""
        self._closed = True
        self._shards.close()

    def __enter__(self) -> _RawLoader[Row]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RawSequenceLoader(_RawLoader[RawSequence]):
    """The sequences of a dataset that `shardkit tokenize` wrote."""

    _rows = "sequences"

    def _of(self, dataset: Dataset, split: str | None) -> tuple[str, Lengths]:
        chosen = choose_split(dataset, split)
        return chosen, read_lengths(dataset, chosen)

    def _read(self, shards: list[int], rows: list[int]) -> list[RawSequence]:
        return self._shards.raw_sequences(shards, rows, copy=self._copy)


class RawExampleLoader(_RawLoader[RawExample]):
    """The examples of a dataset of any stage."""

    _rows = "examples"

    def _of(self, dataset: Dataset, split: str | None) -> tuple[str, Lengths]:
        chosen = named_split(dataset, split)
        return chosen, read_examples(dataset, chosen)

    def _read(self, shards: list[int], rows: list[int]) -> list[RawExample]:
        return self._shards.raw_examples(shards, rows, copy=self._copy)
