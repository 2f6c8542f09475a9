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
from shardkit.loader.pictures import Pictures, SlotMismatchError
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
    """The most recently used readers, by index of their shard; others are closed."""

    def __init__(self, opened: Callable[[int], Opened]) -> None:
        self._open = opened
        self._readers: OrderedDict[int, Opened] = OrderedDict()

    def get(self, index: int) -> Opened:
        reader = self._readers.get(index)
        if reader is None:
            reader = self._readers[index] = self._open(index)
            if len(self._readers) > OPEN_SHARDS:
                self._readers.popitem(last=False)[1].close()
        self._readers.move_to_end(index)
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
        self._blocks.move_to_end(id(batch))
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

    def picture(self, loaded: Loaded, slot: Slot, out: npt.NDArray[np.uint8], chance: int | None = None) -> int:
        """Decode and process the picture of a slot into `out` [H, W, 3].

        Args:
            chance: decides what of it is shown, where the processor has random views; None shows it as it is, and
                pictures whose labels or reading order speak of places are always shown so.

        Returns:
            Bytes of the picture as it is stored.

        Raises:
            BadMedia: where it cannot be decoded.
            IntegrityError: where its shard is damaged, or the picture has not the size that the slot was made for.
        """
        assert self._pictures is not None, "a recipe without pictures makes no slots"
        data = self.stored(loaded, slot)
        placed = slot.ocr_labels is not None or slot.reading_order is not None
        try:
            self._pictures.put(data, out, (slot.used_height, slot.used_width), None if placed else chance)
        except SlotMismatchError as error:
            raise IntegrityError(
                f"image {slot.image} {error}",
                where=self.place(loaded),
                hint="tokenize the dataset again with this version",
            ) from error
        return len(data)

    def place(self, loaded: Loaded) -> str:
        """`shard:row` of an example, for messages."""
        return f"{self._names[loaded.shard]}:{loaded.row}"

    def close(self) -> None:
        self._blocks.clear()
        self._sequences.close()
        with self._lock:
            self._examples.close()


class _Block:
    """The columns of a record batch of sequences, without a copy; a row costs what the row holds."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        ids, slots, runs = (batch.column(name) for name in ("input_ids", "slots", "objectives"))
        self._id_bounds, self._ids = _array(ids.offsets), _array(ids.values)
        self._slot_bounds = _array(slots.offsets)
        self._slots = {name: _array(slots.values.field(name)) for name in _SLOT}
        self._labels = {
            name: None if column.null_count == len(column) else column
            for name, column in ((name, slots.values.field(name)) for name in _LABELS)
        }
        self._run_bounds = _array(runs.offsets)
        self._runs = tuple(_array(runs.values.field(name)) for name in ("objective", "length"))
        self._numbers = {
            name: _array(batch.column(name)) for name in ("shard", "row", "window", "alternative", "alternatives")
        }
        self._values = {name: batch.column(name) for name in ("example_id", "source", "prompt", "documents")}

    def row(self, place: int, examples: collections.abc.Sequence[int]) -> Loaded:
        """Args:
        examples: place of the shards of examples that the row counts by in the dataset's list.
        """
        number = {name: int(column[place]) for name, column in self._numbers.items()}
        value = {name: column[place].as_py() for name, column in self._values.items()}
        first, stop = self._run_bounds[place : place + 2].tolist()
        objectives, counts = (column[first:stop] for column in self._runs)
        return Loaded(
            sequence=Sequence(
                input_ids=self._ids[self._id_bounds[place] : self._id_bounds[place + 1]],
                objectives=np.repeat(objectives, counts).tobytes(),
                slots=tuple(self._slot(at) for at in range(*self._slot_bounds[place : place + 2].tolist())),
                window=number["window"],
                documents=tuple(value["documents"]),
                alternative=number["alternative"],
                alternatives=number["alternatives"],
                prompt=value["prompt"],
            ),
            example_id=value["example_id"],
            source=value["source"],
            shard=examples[number["shard"]],
            row=number["row"],
        )

    def _slot(self, at: int) -> Slot:
        number = {name: int(column[at]) for name, column in self._slots.items()}
        return Slot(
            start=number["start"],
            count=number["count"],
            image=number["image"],
            height=number["height"],
            width=number["width"],
            used_height=number["used_height"],
            used_width=number["used_width"],
            ocr_labels=self._label("ocr_labels", at),
            reading_order=self._label("reading_order", at),
        )

    def _label(self, name: str, at: int) -> tuple[int, ...] | None:
        column = self._labels[name]
        values = None if column is None else column[at].as_py()
        return None if values is None else tuple(values)


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
