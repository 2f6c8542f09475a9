"""Rows of a shard of examples as they are stored: its id, its texts, the bytes of its pictures.

What is asked row by row is kept by row block as memoryviews of Arrow's buffers: an item of one is a plain number at the
price of a list's, and nothing is copied. A value of Arrow, or of numpy, costs more than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from shardkit.store.blocks import BlockCheck, Blocks

Content = tuple[str | int, ...]
"""The segments of an example in order: a text, or the number of one of its pictures."""


class RowReader:
    """What readers of Arrow and tar shards have in common.

    Args:
        check: of the shard.
        read: index of a row block -> its columns, with all bytes of its rows checked.
    """

    def __init__(self, check: BlockCheck, read: Callable[[int], pa.RecordBatch]) -> None:
        self.num_rows = check.num_rows
        self._pictures = Blocks(check, lambda index: self._pictures_of(read(index)))
        self._contents = Blocks(check, lambda index: _Contents(read(index)))

    def _pictures_of(self, batch: pa.RecordBatch) -> Pictures:
        raise NotImplementedError

    def image_bytes(self, row: int, image: int) -> memoryview:
        """The stored bytes of one image, zero-copy."""
        pictures, place = self._pictures.locate(row)
        return pictures.get(place, (image,))[0]

    def images(self, row: int, numbers: Iterable[int]) -> list[memoryview]:
        """The stored bytes of some images of a row, zero-copy."""
        pictures, place = self._pictures.locate(row)
        return pictures.get(place, numbers)

    def content(self, row: int) -> tuple[str, Content, list[memoryview]]:
        """Example id, segments, and the stored bytes of all images, zero-copy."""
        contents, place = self._contents.locate(row)
        pictures, _ = self._pictures.locate(row)
        example_id, segments = contents.get(place)
        return example_id, segments, pictures.get(place, range(pictures.number(place)))

    def forget(self) -> None:
        """Let go of what is kept."""
        self._pictures.clear()
        self._contents.clear()


class Pictures:
    __slots__ = ("_data", "_first", "_starts", "_stops")
    """Where the pictures of a row block lie.

    Args:
        images: [rows] lists of images.
        starts: [images] of each in `data`; likewise stops.
    """

    def __init__(self, images: pa.ListArray, *, starts: memoryview, stops: memoryview, data: memoryview) -> None:
        self._first = offsets_of(images)
        self._starts, self._stops, self._data = starts, stops, data

    def number(self, place: int) -> int:
        """Images of a row."""
        return int(self._first[place + 1] - self._first[place])

    def get(self, place: int, numbers: Iterable[int]) -> list[memoryview]:
        """The bytes of some images of a row."""
        first, behind = self._first[place], self._first[place + 1]
        found = []
        for number in numbers:
            at = first + number
            if not first <= at < behind:
                raise IndexError(f"the row has no image {number}")
            found.append(self._data[self._starts[at] : self._stops[at]])
        return found


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
