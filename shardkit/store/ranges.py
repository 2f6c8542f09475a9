"""A few rows of a shard behind a URL: only their blocks are fetched, and each is compared with its digest.

    shard    head | block 0 | block 1 | ... | tail        memory of the shard's size; what is not fetched takes none
    opened   ****                             ****
    row 70                    *******

For looks at a dataset: head, inspect, trace. A stream reads every row of a shard, so it takes the whole of it.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardkit.store.blocks import BlockCheck
from shardkit.store.remote import NoRangesError, Ranges
from shardkit.store.rows import Block


class RangedCheck(BlockCheck):
    """Fetches blocks when they are checked. A shard that is in the cache is read there, and so is one of a server that
    gives whole files only.

    Args:
        ranges: opens the file behind its URL.
        more: see BlockCheck; blocks are always compared before their first use.
    """

    def __init__(self, *, ranges: Callable[[], Ranges], **more: Any) -> None:
        super().__init__(**{**more, "verify": "read"})
        self._open_ranges = ranges
        self._ranges: Ranges | None = None

    def open(self, path: Path) -> mmap.mmap | bytes:
        if path.is_file():
            return super().open(path)
        mapped = mmap.mmap(-1, self._size)
        try:
            self._ranges = self._open_ranges()
            # The tail first: a server that gives whole files shows it before it sends one.
            for block in reversed(self._frame):
                self._fetch(mapped, block)
        except NoRangesError:
            self._ranges = None
            return super().open(path)
        return mapped

    def block(self, mapped: mmap.mmap | bytes, index: int) -> None:
        if not self._checked[index]:
            self._fetch(mapped, self._rows[index])
        super().block(mapped, index)

    def _fetch(self, mapped: mmap.mmap | bytes, block: Block) -> None:
        if self._ranges is not None and isinstance(mapped, mmap.mmap):
            data = self._ranges(block.offset, block.offset + block.size)
            # What is short or long is found by its digest, like all else that is not as it was.
            mapped[block.offset : block.offset + block.size] = data[: block.size].ljust(block.size, b"\0")
