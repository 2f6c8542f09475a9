"""The shards of a dataset, and their rows by place.

Shards are memory-mapped and stay open, the most recent ones; each block of rows is checked before its first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import orjson

from shardkit.loader.rows import Loaded, RawExample, RawSequence, SequenceReader
from shardkit.sequence.sequence import Slot
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset
from shardkit.store.shard import ShardReader

OPEN_SHARDS = 64
"""Of each kind: more than a window of eight shards from several sources needs."""
OPEN_ROWS = 1 << 20
"""Sequences whose numbers are at hand, at 150 bytes each."""


class Closes(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closes)


class _Recent(dict[int, Opened]):
    """The readers that were opened last, by index of their shard; others are closed.

    A plan reads from a window of shards and then goes on: the oldest one is not asked for again.
    """

    def __init__(self, opened: Callable[[int], Opened]) -> None:
        super().__init__()
        self._open = opened

    def __missing__(self, index: int) -> Opened:
        reader = self[index] = self._open(index)
        if len(self) > OPEN_SHARDS:
            self.pop(next(iter(self))).close()
        return reader

    def close(self) -> None:
        for reader in self.values():
            reader.close()
        self.clear()


class _RecentSequences(_Recent[SequenceReader]):
    """Of shards of many rows the newest are at hand; the others stay open."""

    def __missing__(self, index: int) -> SequenceReader:
        newest = super().__missing__(index)
        rows = 0
        for reader in reversed(self.values()):
            rows += reader.num_rows
            if rows > OPEN_ROWS and reader is not newest:
                reader.forget()
        return newest


class Shards:
    """Reads rows.

    `sequence` and `raw_sequences` are for one thread at a time, all else is for any number.
    """

    def __init__(self, dataset: Dataset, *, verify: Verify) -> None:
        sequences, examples = dataset.sequence_shards, dataset.shards
        self._sequences = _RecentSequences(
            lambda index: SequenceReader(
                dataset.sequence_reader(sequences[index], verify=verify), dataset.examples_of(sequences[index])
            )
        )
        self._examples: _Recent[ShardReader] = _Recent(lambda index: dataset.reader(examples[index], verify=verify))
        # Before the lock is taken, so that several threads fetch several shards at once.
        self._fetch: Callable[[int], None] = lambda index: dataset.fetch(examples[index])
        self._names = [shard.name for shard in examples]
        self._lock = threading.Lock()

    def sequence(self, shard: int, row: int) -> Loaded:
        """The sequence at `row` of sequence shard `shard`.

        Raises:
            IntegrityError: where the shard is missing, or its bytes are not those of the manifest.
        """
        return self._sequences[shard].sequence(row)

    def raw_sequences(self, shards: Iterable[int], rows: Iterable[int], *, copy: bool = False) -> list[RawSequence]:
        """Sequences as they are stored, by shard of sequences and row.

        Args:
            copy: the bytes of pictures, instead of views of their shards.

        Raises:
            IntegrityError: where a shard is missing or damaged.
        """
        sequences, examples = self._sequences, self._examples
        with self._lock:
            return [sequences[shard].raw(row, examples, copy=copy) for shard, row in zip(shards, rows, strict=True)]

    def raw_examples(self, shards: Iterable[int], rows: Iterable[int], *, copy: bool = False) -> list[RawExample]:
        """Examples as they are stored, by shard of examples and row; see `raw_sequences`."""
        with self._lock:
            return [self._examples[shard].content(row, copy=copy) for shard, row in zip(shards, rows, strict=True)]

    def metadata(self, loaded: Loaded) -> dict[str, Any]:
        """The metadata of a sequence's example, as its source gave it."""
        with self._lock:
            # The column alone: of an example all pictures would be copied.
            column = self._examples[loaded.shard].columns(("metadata",), rows=range(loaded.row, loaded.row + 1))
        found: dict[str, Any] = orjson.loads(column["metadata"][0].as_py())
        return found

    def stored(self, loaded: Loaded, slot: Slot) -> memoryview:
        """The picture of a slot as it is stored, zero-copy.

        Raises:
            IntegrityError: where its shard is damaged.
        """
        if loaded.shard not in self._examples:
            self._fetch(loaded.shard)
        with self._lock:
            return self._examples[loaded.shard].image_bytes(loaded.row, slot.image)

    def place(self, loaded: Loaded) -> str:
        """`shard:row` of an example, for messages."""
        return f"{self._names[loaded.shard]}:{loaded.row}"

    def close(self) -> None:
        self._sequences.close()
        with self._lock:
            self._examples.close()
