"""A few readers stay open, those that were used last; the others are closed."""

from __future__ import annotations

from shardkit.store.recent import RecentReaders


class Reader:
    """Says when it is opened and closed."""

    def __init__(self, shard: int, log: list[str]) -> None:
        self._shard, self._log = shard, log
        log.append(f"open {shard}")

    def close(self) -> None:
        self._log.append(f"close {self._shard}")


def test_the_reader_that_was_used_longest_ago_is_closed():
    log: list[str] = []
    readers = RecentReaders(lambda shard: Reader(shard, log), limit=2)
    for shard in (0, 1, 0, 2, 0, 1):
        readers(shard)
    assert log == ["open 0", "open 1", "open 2", "close 1", "open 1", "close 2"]


def test_one_is_dropped_and_all_are_closed():
    log: list[str] = []
    readers = RecentReaders(lambda shard: Reader(shard, log), limit=3)
    assert readers(4) is readers(4)
    readers(5)
    readers.drop(4)
    readers.close()
    readers(5)
    assert log == ["open 4", "open 5", "close 4", "close 5", "open 5"]
