"""Rows of a shard of examples as they are stored: ids, texts, the bytes of pictures.

What is asked row by row is kept as plain numbers: a value of Arrow or of numpy costs more than all the rest.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.store.blocks import BlockCheck, Blocks

Content = tuple[str | int, ...]
"""The segments of an example in order: a text, or the number of one of its pictures."""

Stored = bytes | memoryview
"""The bytes of a picture."""

Offsets = npt.NDArray[np.int64]

_UNKNOWN = -1


class RowReader:
    """What readers of Arrow and tar shards have in common: where the pictures of each row lie in the file.

    It is written down block by block, when a row of one is first asked for and its bytes are checked:

        row        0    1    2   |  3    4       rows 3 and 4 were asked for first
        rows      1 3  0 4  2 4  | 2 0  1 2      number of pictures, -1 before; which of all is the first
        bounds    0: start stop  1: start stop   of all pictures in the file

    What is asked for together lies side by side: after the bytes of a picture little else is left in the caches.

    Args:
        check: of the shard.
        mapped: its file.
    """

    def __init__(self, check: BlockCheck, mapped: mmap.mmap | bytes) -> None:
        self.num_rows = check.num_rows
        self._check = check
        self._map = mapped
        self._view = memoryview(mapped)
        self._rows = array("q", [_UNKNOWN, 0]) * check.num_rows
        self._bounds = array("q")
        self._contents = Blocks(check, lambda index: _Contents(self._read(index)))

    def _read(self, index: int) -> pa.RecordBatch:
        """The columns of a row block, with all bytes of its rows checked."""
        raise NotImplementedError

    def _places(self, images: pa.StructArray) -> tuple[Offsets, Offsets]:
        """[pictures] where in the file each begins, and where it ends."""
        raise NotImplementedError

    def image_bytes(self, row: int, image: int) -> memoryview:
        """The stored bytes of one image, zero-copy."""
        return memoryview(self.images(row, (image,))[0])

    def images(self, row: int, numbers: Iterable[int], *, copy: bool = False) -> list[Stored]:
        """The stored bytes of some images of a row, as views of the file or as copies.

        Raises:
            IndexError: where there is no such row or image.
        """
        size = self._rows[2 * row] if 0 <= row < self.num_rows else _UNKNOWN
        if size == _UNKNOWN:
            size = self._number_of(row)
        data = self._map if copy else self._view
        first, bounds, found = self._rows[2 * row + 1], self._bounds, []
        for number in numbers:
            if not 0 <= number < size:
                raise IndexError(f"row {row} has no image {number}")
            at = 2 * (first + number)
            found.append(data[bounds[at] : bounds[at + 1]])
        return found

    def content(self, row: int, *, copy: bool = False) -> tuple[str, Content, list[Stored]]:
        """Example id, segments, and the stored bytes of all images, as views of the file or as copies."""
        contents, place = self._contents.locate(row)
        return *contents.get(place), self.images(row, range(self._number_of(row)), copy=copy)

    def _number_of(self, row: int) -> int:
        """Images of a row; of a block that was not asked for before, it is written down first."""
        index = self._check.block_of(row)
        if self._rows[2 * row] == _UNKNOWN:
            images = self._read(index).column("images")
            ends = np.frombuffer(offsets_of(images), np.int32).astype(np.int64)
            first = self._check.first_rows[index]
            rows = np.frombuffer(self._rows, np.int64).reshape(-1, 2)[first : first + len(images)]
            rows[:, 0] = np.diff(ends)
            rows[:, 1] = ends[:-1] + len(self._bounds) // 2
            self._bounds.frombytes(np.stack(self._places(images.values), axis=1).tobytes())
        return self._rows[2 * row]

    def close(self) -> None:
        """Views that were handed out keep their memory alive."""
        self._contents.clear()
        self._view.release()


class Texts:
    """A column of texts: one is made when it is asked for."""

    def __init__(self, column: pa.Array) -> None:
        self._bounds, self._data = offsets_of(column), data_of(column)

    def __getitem__(self, at: int) -> str:
        return str(self._data[self._bounds[at] : self._bounds[at + 1]], "utf-8")


class _Contents:
    """Ids and segments of a row block."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        segments = batch.column("segments")
        text, image = (segments.values.field(name) for name in ("text", "image"))
        self._ids = Texts(batch.column("example_id"))
        self._first = offsets_of(segments)
        self._texts = Texts(text)
        # -1 where there is no image: the segment is a text.
        self._images = image.fill_null(-1).to_numpy().data

    def get(self, place: int) -> tuple[str, Content]:
        own = range(self._first[place], self._first[place + 1])
        images, texts = self._images, self._texts
        return self._ids[place], tuple([images[at] if images[at] >= 0 else texts[at] for at in own])


def offsets_of(column: pa.Array) -> memoryview:
    """[rows + 1] int32 or int64: where each list, text or blob begins, and where the last one ends."""
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    kind = np.int64 if wide else np.int32
    buffer = column.buffers()[1]
    if buffer is None or not buffer.size:  # of no rows, nothing needs to be stored
        return np.zeros(1, kind).data
    return np.frombuffer(buffer, kind)[column.offset : column.offset + len(column) + 1].data


def data_of(column: pa.Array) -> memoryview:
    """The bytes of all texts or blobs."""
    return memoryview(column.buffers()[2] or b"").cast("B")
