"""Readers of shards that stay open between look-ups: a few, those that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class _Closes(Protocol):
    def close(self) -> None: ...


Reader = TypeVar("Reader", bound=_Closes)


class RecentReaders(Generic[Reader]):
    """The reader of a shard, by the shard's number; opened when it is first asked for.

    Args:
        open_shard: number of a shard -> its reader.
        limit: readers that stay open; beyond it the one is closed that was used longest ago.
    """

    def __init__(self, open_shard: Callable[[int], Reader], *, limit: int) -> None:
        self._open_shard = open_shard
        self._limit = limit
        self._readers: OrderedDict[int, Reader] = OrderedDict()

    def __call__(self, shard: int) -> Reader:
        reader = self._readers.pop(shard, None) or self._open_shard(shard)
        self._readers[shard] = reader
        if len(self._readers) > self._limit:
            self._readers.popitem(last=False)[1].close()
        return reader

    def drop(self, shard: int) -> None:
        """Close the reader of a shard that will not be asked for again."""
        self._readers.pop(shard).close()

    def close(self) -> None:
        """Close all of them."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
