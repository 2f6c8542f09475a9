"""Sequences and pictures of a tokenized dataset, read by place.

    lengths index -> (sequence shard, row) -> ids, objectives, slots -> (example shard, row, image) -> pixels

Shards are memory-mapped and stay open, the most recent ones; each block of rows is checked before its first use.
"""

from __future__ import annotations

import collections.abc
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from shardkit.errors import ConfigError, IntegrityError
from shardkit.loader.batch import PixelForm
from shardkit.loader.pictures import Jpeg, Pictures, SlotMismatchError
from shardkit.media.processors import Processor
from shardkit.records.manifest import ShardEntry
from shardkit.sequence.recipes import RECIPES, configure
from shardkit.sequence.sequence import Sequence, Slot
from shardkit.store.arrow_shard import TableReader
from shardkit.store.blocks import Verify
from shardkit.store.dataset import Dataset, ShardReader
from shardkit.store.mirror import Mirror
from shardkit.store.tar_shard import index_path

OPEN_SHARDS = 64
"""Of each kind: more than a window of eight shards from several sources needs."""
OPEN_BLOCKS = 1024
"""Row blocks of sequences whose columns are at hand."""

_LISTS = ("input_ids", "slots", "objectives", "documents")
_TEXTS = ("example_id", "source")
_NUMBERS = ("shard", "row", "window", "alternative", "alternatives")
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


class Closes(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closes)


class _Recent(Generic[Opened]):
    """The readers that were opened last, by index of their shard; others are closed.

    A plan reads from a window of shards and then goes on: the oldest one is not asked for again.
    """

    def __init__(self, opened: Callable[[int], Opened]) -> None:
        self._open = opened
        self._readers: OrderedDict[int, Opened] = OrderedDict()

    def get(self, index: int) -> Opened:
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = self._open(index)
            if len(self._readers) > OPEN_SHARDS:
                self._readers.popitem(last=False)[1].close()
        return reader

    def __contains__(self, index: int) -> bool:
        """Whether it is open; for any thread, as a hint."""
        return index in self._readers

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()


class Reader:
    """Reads what plans name.

    `sequence` is for one thread, `picture` for any number.
    """

    def __init__(self, dataset: Dataset, *, verify: Verify, decoder: str = "pillow") -> None:
        self._where = str(dataset.path)
        sequences, examples = dataset.sequence_shards, dataset.shards
        self._sequences: _Recent[TableReader] = _Recent(
            lambda index: dataset.sequence_reader(sequences[index], verify=verify)
        )
        self._examples: _Recent[ShardReader] = _Recent(lambda index: dataset.reader(examples[index], verify=verify))
        # Before the lock is taken, so that several threads fetch several shards at once.
        self._fetch: Callable[[int], None] = lambda index: dataset.fetch(examples[index])
        self._names = [shard.name for shard in examples]
        self._examples_of = [dataset.examples_of(shard) for shard in sequences]
        self._blocks: OrderedDict[int, tuple[pa.RecordBatch, _Block]] = OrderedDict()
        self._lock = threading.Lock()
        processor = image_processor(dataset)
        self._pictures = None if processor is None else Pictures(processor, decoder)
        recorded = dataset.recipe["recipe"].get("image_processor") or {}
        names = ("patch", "merge", "tile", "normalisation")
        self.form = PixelForm(**{name: recorded[name] for name in names if name in recorded})
        """What pictures are made into."""

    def sequence(self, shard: int, row: int) -> Loaded:
        """The sequence at `row` of sequence shard `shard`.

        Raises:
            IntegrityError: where the shard is missing, or its bytes are not those of the manifest.
        """
        batch, place = self._sequences.get(shard).locate(row)
        known = self._blocks.get(id(batch))
        if known is None:
            # The batch is kept beside its columns: an id is that of one object only as long as it lives.
            known = self._blocks[id(batch)] = (batch, _Block(batch))
            if len(self._blocks) > OPEN_BLOCKS:
                self._blocks.popitem(last=False)
        return known[1].row(place, self._examples_of[shard])

    def metadata(self, loaded: Loaded) -> dict[str, Any]:
        """The metadata of a sequence's example; for one thread, and none of those that read pictures."""
        with self._lock:
            text = self._examples.get(loaded.shard).example(loaded.row).metadata
        found: dict[str, Any] = orjson.loads(text)
        return found

    def stored(self, loaded: Loaded, slot: Slot) -> memoryview:
        """The picture of a slot as it is stored, zero-copy.

        Raises:
            IntegrityError: where its shard is damaged.
        """
        if loaded.shard not in self._examples:
            self._fetch(loaded.shard)
        with self._lock:
            return self._examples.get(loaded.shard).image_bytes(loaded.row, slot.image)

    def picture(
        self, loaded: Loaded, slot: Slot, out: npt.NDArray[np.uint8], chance: int | None = None
    ) -> tuple[int, Jpeg | None]:
        """Decode and process the picture of a slot into `out` [H, W, 3].

        Args:
            chance: decides what of it is shown, where the processor has random views; None shows it as it is, and
                pictures whose labels or reading order speak of places are always shown so.

        Returns:
            Bytes of the picture as it is stored; what is left to the device, which leaves `out` alone, else None.

        Raises:
            BadMedia: where it cannot be decoded.
            IntegrityError: where its shard is damaged, or the picture has not the size that the slot was made for.
        """
        assert self._pictures is not None, "a recipe without pictures makes no slots"
        data = self.stored(loaded, slot)
        placed = slot.ocr_labels is not None or slot.reading_order is not None
        try:
            left = self._pictures.put(data, out, (slot.used_height, slot.used_width), None if placed else chance)
        except SlotMismatchError as error:
            raise IntegrityError(
                f"image {slot.image} {error}",
                where=self.place(loaded),
                hint="tokenize the dataset again with this version",
            ) from error
        return len(data), left

    def place(self, loaded: Loaded) -> str:
        """`shard:row` of an example, for messages."""
        return f"{self._names[loaded.shard]}:{loaded.row}"

    def close(self) -> None:
        self._blocks.clear()
        self._sequences.close()
        with self._lock:
            self._examples.close()


class _Block:
    """The columns of a record batch of sequences as plain numbers: a value of Arrow costs more than all the rest.

    The numbers of a row lie side by side, so that one step of the interpreter fetches them.
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        lists = [batch.column(name) for name in _LISTS]
        texts = [batch.column(name) for name in _TEXTS]
        self._bounds = np.stack(
            [_array(column.offsets) for column in lists] + [_offsets(text) for text in texts], axis=1
        )
        ids, slots, runs, documents = (column.values for column in lists)
        self._ids, self._documents = _array(ids), _array(documents)
        self._slots = _side_by_side([slots.field(name) for name in _SLOT])
        self._labels = [None if column.null_count == len(column) else column for column in map(slots.field, _LABELS)]
        self._runs = _side_by_side([runs.field(name) for name in ("objective", "length")])
        self._texts = [memoryview(text.buffers()[2] or b"").cast("B") for text in texts]
        self._numbers = _side_by_side([batch.column(name) for name in _NUMBERS])
        prompts = batch.column("prompt")
        self._prompts = None if prompts.null_count == len(prompts) else prompts

    def row(self, place: int, examples: collections.abc.Sequence[int]) -> Loaded:
        """Args:
        examples: place of the shards of examples that the row counts by in the dataset's list.
        """
        first, stop = self._bounds[place : place + 2].tolist()
        ids, slots, runs, documents, example, source = zip(first, stop, strict=True)
        shard, row, window, alternative, alternatives = self._numbers[place].tolist()
        return Loaded(
            sequence=Sequence(
                input_ids=self._ids[slice(*ids)],
                objectives=b"".join(
                    [_BYTE[objective] * length for objective, length in self._runs[slice(*runs)].tolist()]
                ),
                slots=tuple(map(self._slot, range(*slots), self._slots[slice(*slots)].tolist())),
                window=window,
                documents=_ONE
                if documents[1] - documents[0] == 1
                else tuple(self._documents[slice(*documents)].tolist()),
                alternative=alternative,
                alternatives=alternatives,
                prompt=None if self._prompts is None else self._prompts[place].as_py(),
            ),
            example_id=str(self._texts[0][slice(*example)], "utf-8"),
            source=str(self._texts[1][slice(*source)], "utf-8"),
            shard=examples[shard],
            row=row,
        )

    def _slot(self, at: int, numbers: list[int]) -> Slot:
        start, count, image, height, width, used_height, used_width = numbers
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


def _side_by_side(columns: collections.abc.Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """[rows, columns]"""
    return np.stack([_array(column).astype(np.int32) for column in columns], axis=1)


def _offsets(text: pa.StringArray) -> npt.NDArray[np.int32]:
    """[rows + 1] where each text begins in the buffer of all."""
    return np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]


def _array(column: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def image_processor(dataset: Dataset) -> Processor | None:
    """The image processor that the dataset's sequences were made for; None for a recipe without images.

    Raises:
        ConfigError: where this version's processor or decoder would give other pixels.
    """
    recorded = dict(dataset.recipe["recipe"])
    name, stated = recorded.pop("name"), recorded.pop("image_processor", None)
    recorded.pop("version")
    if stated is None:
        return None
    processor: Processor | None = configure(RECIPES[name], recorded).image_processor()
    found = processor.recipe() if processor else None
    if found != stated:
        raise ConfigError(
            f"the sequences were made for the image processor {stated}, this shardkit has {found}",
            where=str(dataset.path),
            hint="tokenize the dataset again with this version",
        )
    return processor


def check_files(dataset: Dataset, split: str | None) -> None:
    """Compare the sizes of all shards of a split with the manifest, before anything is read.

    Raises:
        IntegrityError: where one is missing, or of another size.
    """
    remote: dict[Mirror, list[ShardEntry]] = {}
    for shard in (*dataset.sequence_shards, *dataset.shards):
        if split is not None and shard.split != split:
            continue
        if shard.holder.mirror is not None:
            remote.setdefault(shard.holder.mirror, []).append(shard.entry)
            continue
        _check_size(shard.path, shard.entry.size)
        if shard.entry.index_size is not None:
            _check_size(index_path(shard.path), shard.entry.index_size)
    for mirror, entries in remote.items():
        mirror.look(entries)


def _check_size(path: Path, stated: int) -> None:
    hint = "restore the file, or build the dataset again from its inputs"
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise IntegrityError("the shard is missing", where=str(path), hint=hint) from error
    except OSError as error:
        raise IntegrityError(f"the shard cannot be read ({error.strerror})", where=str(path), hint=hint) from error
    if size != stated:
        raise IntegrityError(f"the file has {size} bytes, the manifest says {stated}", where=str(path), hint=hint)
