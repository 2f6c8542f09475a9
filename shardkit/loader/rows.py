"""What a reader gives of a row: a sequence for packs, or a sequence or an example as it is stored.

What is asked of sequences row by row is kept by row block as plain numbers: see `shardkit.store.row_reader`.
"""

from __future__ import annotations

import collections.abc
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.sequence.sequence import Sequence, Slot
from shardkit.store.arrow_shard import TableReader
from shardkit.store.row_reader import Content, Stored, Texts, offsets_of
from shardkit.store.shard import ShardReader

Ids = npt.NDArray[np.unsignedinteger[Any]]

_ONE = (0,)
"""Of a sequence that is one document."""
_BYTE = [bytes([number]) for number in range(256)]
_SLOT = ("start", "count", "image", "height", "width", "used_height", "used_width")
_WIDTH = 13
"""Numbers of a row of sequences."""
_LABELS = ("ocr_labels", "reading_order")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Loaded:
    """A sequence and where it comes from."""

    sequence: Sequence
    example_id: str
    source: str
    shard: int
    """Index of the shard of examples, and ..."""
    row: int
    """... the example's row there."""


RawSequence = tuple[str, Ids, list[Stored]]
"""A sequence as it is stored: example id, token ids [T], and the stored bytes of the picture of each slot, in order.

Views of a shard keep its file in memory: copy what stays.
"""

RawExample = tuple[str, Content, list[Stored]]
"""An example as it is stored: its id, its segments in order (a text, or the place of a picture), the stored bytes of its
pictures."""


class SequenceReader:
    """The rows of a shard of sequences.

    Args:
        table: the shard; closed with this.
        examples: place of the shards of examples that its rows count by in the dataset's list.
    """

    def __init__(self, table: TableReader, examples: collections.abc.Sequence[int]) -> None:
        self.num_rows = table.num_rows
        self._table = table
        self._blocks = table.kept(lambda batch: _Block(batch, examples))

    def sequence(self, row: int) -> Loaded:
        block, place = self._blocks.locate(row)
        return block.sequence(place)

    def raw(self, row: int, examples: Mapping[int, ShardReader], *, copy: bool) -> RawSequence:
        """A row as it is stored, its pictures from the readers of `examples`, as views or as copies."""
        block, place = self._blocks.locate(row)
        return block.raw(place, examples, copy=copy)

    def forget(self) -> None:
        """Let go of what is kept of its blocks; they are made anew where they are asked for."""
        self._blocks.clear()

    def close(self) -> None:
        self.forget()
        self._table.close()


class _Block:
    """The columns of a record batch of sequences.

    The numbers of a row lie side by side, so that one look at memory finds them.
    """

    def __init__(self, batch: pa.RecordBatch, examples: collections.abc.Sequence[int]) -> None:
        lists = [batch.column(name) for name in ("input_ids", "slots", "objectives", "documents")]
        bounds = [np.frombuffer(offsets_of(column), np.int32) for column in lists]
        shard, *others = (
            batch.column(name).to_numpy() for name in ("shard", "row", "window", "alternative", "alternatives")
        )
        firsts_and_stops = [part for bound in bounds for part in (bound[:-1], bound[1:])]
        self._numbers = _side_by_side([*firsts_and_stops, np.asarray(examples)[shard], *others])
        """[rows * 13] first and stop of ids (0, 1), of slots (2, 3), of runs and of documents; shard (8) and row (9) of the
        example; window, alternative, alternatives."""
        ids, slots, runs, documents = (column.values for column in lists)
        self._ids: Ids = ids.to_numpy()
        self._example_ids: list[str] = batch.column("example_id").to_pylist()
        self._sources = Texts(batch.column("source"))
        self._slots = _side_by_side([slots.field(name).to_numpy() for name in _SLOT])
        self._images: list[int] = slots.field("image").to_pylist()
        self._labels = [None if column.null_count == len(column) else column for column in map(slots.field, _LABELS)]
        self._objectives, self._lengths = (runs.field(name).to_numpy().data for name in ("objective", "length"))
        self._documents = documents.to_numpy().data
        prompts = batch.column("prompt")
        self._prompts = None if prompts.null_count == len(prompts) else prompts

    def raw(self, place: int, examples: Mapping[int, ShardReader], *, copy: bool) -> RawSequence:
        numbers, at = self._numbers, _WIDTH * place
        images = self._images[numbers[at + 2] : numbers[at + 3]]
        return (
            self._example_ids[place],
            self._ids[numbers[at] : numbers[at + 1]],
            examples[numbers[at + 8]].images(numbers[at + 9], images, copy=copy) if images else [],
        )

    def sequence(self, place: int) -> Loaded:
        (
            first_id, behind_ids, first_slot, behind_slots, first_run, behind_runs, first_document, behind_documents,
            shard, row, window, alternative, alternatives,
        ) = self._numbers[_WIDTH * place : _WIDTH * (place + 1)]  # fmt: skip
        runs = zip(self._objectives[first_run:behind_runs], self._lengths[first_run:behind_runs], strict=True)
        return Loaded(
            sequence=Sequence(
                input_ids=self._ids[first_id:behind_ids],
                objectives=b"".join([_BYTE[objective] * length for objective, length in runs]),
                slots=tuple(map(self._slot, range(first_slot, behind_slots))),
                window=window,
                documents=_ONE
                if behind_documents - first_document == 1
                else tuple(self._documents[first_document:behind_documents]),
                alternative=alternative,
                alternatives=alternatives,
                prompt=None if self._prompts is None else self._prompts[place].as_py(),
            ),
            example_id=self._example_ids[place],
            source=self._sources[place],
            shard=shard,
            row=row,
        )

    def _slot(self, at: int) -> Slot:
        start, count, image, height, width, used_height, used_width = self._slots[7 * at : 7 * (at + 1)]
        labels, order = (None if column is None else column[at].as_py() for column in self._labels)
        return Slot(
            start=start,
            count=count,
            image=image,
            height=height,
            width=width,
            used_height=used_height,
            used_width=used_width,
            ocr_labels=None if labels is None else tuple(labels),
            reading_order=None if order is None else tuple(order),
        )


def _side_by_side(columns: collections.abc.Sequence[npt.NDArray[Any]]) -> array[int]:
    """[rows * columns] int32"""
    return array("i", np.stack(columns, axis=1).astype(np.int32).tobytes())
