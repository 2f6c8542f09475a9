"""Checked reading: the blocks of a shard, their digests, when they are compared, and what is kept of each."""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import pyarrow as pa

from shardkit.digest import xxh3
from shardkit.errors import IntegrityError
from shardkit.store.rows import Block

Verify = Literal["read", "open", "off"]
"""read: each block before its first use; open: the whole file when it is opened; off: only its size."""

Parsed = TypeVar("Parsed")
Kept = TypeVar("Kept")


class BlockCheck:
    """Compares the bytes of one shard with what its dataset says of them.

    Args:
        name: the shard's name in its dataset, for messages.
        size: bytes of the whole file.
        digest: xxh3-128 of the whole file.
        blocks: in file order; they cover the file without holes.
        verify: when to compare.
        opener: opens the file; None for one that lies at its path.
        damaged: is told the path where bytes differ.
    """

    def __init__(
        self,
        *,
        name: str,
        size: int,
        digest: str,
        blocks: Sequence[Block],
        verify: Verify,
        opener: Callable[[Path], BinaryIO] | None = None,
        damaged: Callable[[Path], None] | None = None,
    ) -> None:
        self._name = name
        self._opener = opener or _open
        self._damaged = damaged
        self._path: Path | None = None
        self._size = size
        self._digest = digest
        self._frame = [block for block in blocks if block.num_rows == 0]
        self._rows = [block for block in blocks if block.num_rows > 0]
        self._verify = verify
        self._checked = [verify != "read"] * len(self._rows)
        self.first_rows = [block.first_row for block in self._rows]
        self.num_rows = sum(block.num_rows for block in self._rows)

    def open(self, path: Path) -> mmap.mmap | bytes:
        """Map the file; its size is compared always, its digest with verify="open"."""
        self._path = path
        try:
            with self._opener(path) as file:
                # The map keeps the open file, and with it the lock that a cache has on it.
                size = file.seek(0, 2)
                mapped: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except FileNotFoundError as error:
            raise self._error("the shard is missing") from error
        except OSError as error:
            raise self._error(f"the shard cannot be read ({error.strerror})") from error
        if size != self._size:
            raise self._error(f"the file has {size} bytes, the manifest says {self._size}")
        if self._verify == "open":
            self._compare(xxh3(memoryview(mapped)), self._digest)
        return mapped

    def frame(self, mapped: mmap.mmap | bytes) -> None:
        """Check what belongs to no row (schema, footer, end marks), before anything is parsed."""
        if self._verify == "read":
            for block in self._frame:
                self._compare(_digest(mapped, block), block.xxh3)

    def block(self, mapped: mmap.mmap | bytes, index: int) -> None:
        """Check row block `index` once, before its first use."""
        if not self._checked[index]:
            block = self._rows[index]
            self._compare(_digest(mapped, block), block.xxh3)
            self._checked[index] = True

    def block_of(self, row: int) -> int:
        """Index of the row block that holds `row`."""
        if not 0 <= row < self.num_rows:
            raise self.no_row(row)
        return bisect.bisect_right(self.first_rows, row) - 1

    def no_row(self, row: int) -> IndexError:
        return IndexError(f"{self._name} has {self.num_rows} rows, not row {row}")

    def parse(self, parse: Callable[[], Parsed]) -> Parsed:
        """Run a parser over checked bytes; what it cannot read is damage, by name."""
        try:
            return parse()
        except (pa.ArrowInvalid, OSError) as error:
            raise self._error("the file is not a readable shard") from error

    def _compare(self, found: str, expected: str) -> None:
        if found != expected:
            if self._damaged is not None and self._path is not None:
                self._damaged(self._path)
            raise self._error(
                f"digest is xxh3:{found}, the manifest says xxh3:{expected}; the file changed after it was committed"
            )

    def _error(self, what: str) -> IntegrityError:
        return IntegrityError(
            what, where=self._name, hint="restore the file, or build the dataset again from its inputs"
        )


class Blocks(dict[int, Kept]):
    """What is kept of the row blocks of a shard, by index: made when a row of one is first asked for, then at hand.

    Args:
        check: knows which rows are in which block.
        make: index of a block -> what is kept of it; checks its bytes.
    """

    def __init__(self, check: BlockCheck, make: Callable[[int], Kept]) -> None:
        super().__init__()
        self._check = check
        self._make = make
        self._borders = [*check.first_rows, check.num_rows]

    def __missing__(self, index: int) -> Kept:
        kept = self[index] = self._make(index)
        return kept

    def locate(self, row: int) -> tuple[Kept, int]:
        """What is kept of the block that holds `row`, and the row's place in it.

        Raises:
            IndexError: where there is no such row.
        """
        borders = self._borders
        if not 0 <= row < borders[-1]:
            raise self._check.no_row(row)
        index = bisect.bisect_right(borders, row) - 1
        return self[index], row - borders[index]


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _digest(mapped: mmap.mmap | bytes, block: Block) -> str:
    return xxh3(memoryview(mapped)[block.offset : block.offset + block.size])
