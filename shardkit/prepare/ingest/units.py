"""What is read, cut into units of work whose borders depend on the inputs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardkit.prepare.ingest.containers.naming import PLAIN, Naming

UNIT_BYTES = 256_000_000
UNIT_FILES = 10_000
CHUNK_RECORDS = 256
CHUNK_BYTES = 4_000_000
"""A chunk is what one worker process takes at a time: it closes at either bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    name: str
    """Relative to the input root, with `/`."""
    path: str
    """Resolved; never recorded."""
    size: int
    """In bytes."""
    beside: tuple[InputFile, ...] = ()
    """Tables that say more of the records of an archive."""
    start: int = 0
    """Bytes at its head that are left out, whole lines: an older dataset holds them. Only of plain JSON lines."""
    first: int = 1
    """Number of the line that begins there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """A stretch of one input, or for folders of a list of files."""

    container: str
    """How its records are kept: a key of CONTAINERS."""
    file: InputFile
    start: int = 0
    end: int = 0
    """Bytes, rows or samples from `start` to `end`, as the container counts."""
    first: int = 1
    """Position of the first record, for containers that number them."""
    size: int = 0
    """In bytes, what the unit's bound counts."""
    files: tuple[InputFile, ...] = ()
    """For folders: the files of this slice, complete stems only."""
    stems: tuple[str, ...] = ()
    """For folders: under which stem each of these files stands."""
    naming: Naming = PLAIN
    """For folders: what is no part of a stem."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    index: int
    slices: tuple[Slice, ...]

    @property
    def size(self) -> int:
        """In bytes of its inputs."""
        return sum(piece.size for piece in self.slices)

    @property
    def inputs(self) -> dict[str, InputFile]:
        """The files that hold records or stand beside them, by name; not those of folders of pairs."""
        whole = [piece.file for piece in self.slices if piece.container != "files"]
        return {file.name: file for one in whole for file in (one, *one.beside)}

    def key(self) -> list[object]:
        """What the unit is, for its receipt: names and borders."""
        return [
            [s.container, s.file.name, s.start, s.end, s.first, [(f.name, f.size) for f in s.files], s.stems]
            for s in self.slices
        ]


def gather(slices: Iterable[Slice], *, max_bytes: int, max_files: int = UNIT_FILES) -> Iterator[Unit]:
    """Units of whole slices in their order: each as full as the bounds allow."""
    held: list[Slice] = []
    num_bytes = num_files = index = 0
    for piece in slices:
        files = len(piece.files) or 1
        if held and (num_bytes + piece.size > max_bytes or num_files + files > max_files):
            yield Unit(index=index, slices=tuple(held))
            index += 1
            held, num_bytes, num_files = [], 0, 0
        held.append(piece)
        num_bytes += piece.size
        num_files += files
    if held:
        yield Unit(index=index, slices=tuple(held))


def row_slices(
    container: str, file: InputFile, batches: Iterable[tuple[int, int]], *, max_bytes: int
) -> Iterator[Slice]:
    """Slices of rows of a columnar file: whole batches up to `max_bytes`, a larger batch in equal stretches of rows.

    Args:
        batches: of each batch or row group, in order, its number of rows and its size in bytes.
    """
    start = rows = size = 0
    for num_rows, num_bytes in batches:
        if rows and size + num_bytes > max_bytes:
            yield Slice(container=container, file=file, start=start, end=start + rows, size=size)
            start, rows, size = start + rows, 0, 0
        parts = min(max(1, num_rows), -(-num_bytes // max_bytes)) or 1
        for part in range(parts - 1):
            stretch = num_rows * (part + 1) // parts - num_rows * part // parts
            yield Slice(container=container, file=file, start=start, end=start + stretch, size=num_bytes // parts)
            start += stretch
        rows += num_rows - num_rows * (parts - 1) // parts
        size += num_bytes // parts
    yield Slice(container=container, file=file, start=start, end=start + rows, size=size)
