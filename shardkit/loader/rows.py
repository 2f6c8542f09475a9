"""What a reader gives of a row: a sequence for packs, or a sequence or an example as it is stored.

What is asked of sequences row by row is kept by row block as memoryviews: see `shardkit.store.row_reader`.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.sequence.sequence import Sequence, Slot
from shardkit.store.arrow_shard import TableReader
from shardkit.store.dataset import ShardReader
from shardkit.store.row_reader import Content, Texts, offsets_of

Ids = npt.NDArray[np.unsignedinteger[Any]]

_ONE = (0,)
"""Of a sequence that is one document."""
_BYTE = [bytes([number]) for number in range(256)]
_SLOT = ("start", "count", "image", "height", "width", "used_height", "used_width")
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


RawSequence = tuple[str, Ids, list[memoryview]]
"""A sequence as it is stored: example id, token ids [T], and the stored bytes of the picture of each slot, in order.

Ids and pictures are views of the shard and keep it in memory: copy what stays.
"""

RawExample = tuple[str, Content, list[memoryview]]
"""An example as it is stored: its id, its segments in order (a text, or the place of a picture), and the stored bytes of its
pictures, which are views of the shard."""


class SequenceReader:
    """The rows of a shard of sequences.

    Args:
        table: the shard; closed with this.
        examples: place of the shards of examples that its rows count by in the dataset's list.
    """

    def __init__(self, table: TableReader, examples: collections.abc.Sequence[int]) -> None:
        self._table = table
        self._blocks = table.kept(lambda batch: _Block(batch, examples))

    def sequence(self, row: int) -> Loaded:
        block, place = self._blocks.locate(row)
        return block.sequence(place)

    def raw(self, row: int, examples: Mapping[int, ShardReader]) -> RawSequence:
        """A row as it is stored, its pictures from the readers of `examples`."""
        block, place = self._blocks.locate(row)
        return block.raw(place, examples)

    def close(self) -> None:
        self._blocks.clear()
        self._table.close()


class _Block:
    """The columns of a record batch of sequences."""

    def __init__(self, batch: pa.RecordBatch, examples: collections.abc.Sequence[int]) -> None:
        ids, slots, runs, documents = (batch.column(name) for name in ("input_ids", "slots", "objectives", "documents"))
        self._examples = examples
        self._example_ids: list[str] = batch.column("example_id").to_pylist()
        self._sources = Texts(batch.column("source"))
        self._ids_at, self._slots_at, self._runs_at, self._documents_at = map(offsets_of, (ids, slots, runs, documents))
        self._ids: Ids = ids.values.to_numpy()
        self._slots = [_numbers(slots.values.field(name)) for name in _SLOT]
        self._images: list[int] = slots.values.field("image").to_pylist()
        self._labels = [
            None if column.null_count == len(column) else column for column in map(slots.values.field, _LABELS)
        ]
        self._objectives, self._lengths = (_numbers(runs.values.field(name)) for name in ("objective", "length"))
        self._documents = _numbers(documents.values)
        self._shard, self._row, self._window, self._alternative, self._alternatives = (
            _numbers(batch.column(name)) for name in ("shard", "row", "window", "alternative", "alternatives")
        )
        prompts = batch.column("prompt")
        self._prompts = None if prompts.null_count == len(prompts) else prompts

    def raw(self, place: int, examples: Mapping[int, ShardReader]) -> RawSequence:
        ids, slots = self._ids_at, self._slots_at
        numbers = self._images[slots[place] : slots[place + 1]]
        return (
            self._example_ids[place],
            self._ids[ids[place] : ids[place + 1]],
            examples[self._examples[self._shard[place]]].images(self._row[place], numbers) if numbers else [],
        )

    def sequence(self, place: int) -> Loaded:
        ids, runs, slots, documents = (
            slice(at[place], at[place + 1]) for at in (self._ids_at, self._runs_at, self._slots_at, self._documents_at)
        )
        return Loaded(
            sequence=Sequence(
                input_ids=self._ids[ids],
                objectives=b"".join(
                    [
                        _BYTE[objective] * length
                        for objective, length in zip(self._objectives[runs], self._lengths[runs], strict=True)
                    ]
                ),
                slots=tuple(map(self._slot, range(slots.start, slots.stop))),
                window=self._window[place],
                documents=_ONE if documents.stop - documents.start == 1 else tuple(self._documents[documents]),
                alternative=self._alternative[place],
                alternatives=self._alternatives[place],
                prompt=None if self._prompts is None else self._prompts[place].as_py(),
            ),
            example_id=self._example_ids[place],
            source=self._sources[place],
            shard=self._examples[self._shard[place]],
            row=self._row[place],
        )

    def _slot(self, at: int) -> Slot:
        start, count, image, height, width, used_height, used_width = [column[at] for column in self._slots]
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


def _numbers(column: pa.Array) -> memoryview:
    return memoryview(column.to_numpy())
