"""Sequences as columns: the batch that stands in a shard, and what tables/lengths and the totals say of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.ragged import bounds_of, row_sums
from shardkit.sequence.cost import cost
from shardkit.sequence.objectives import OBJECTIVES
from shardkit.sequence.sequence import sequence_id
from shardkit.store.sequences import SLOT, lengths_schema, sequences_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardkit.records import Example
    from shardkit.sequence.recipes import Recipe
    from shardkit.sequence.sequence import Sequence as TokenSequence

Counts = npt.NDArray[np.int64]


class Columns:
    """The sequences of a chunk while they are collected."""

    def __init__(self) -> None:
        self._sequences: list[TokenSequence] = []
        self._examples: list[Example] = []
        self._rows: list[int] = []

    def add(self, row: int, example: Example, sequences: Sequence[TokenSequence]) -> None:
        """The sequences of an example, which stands at `row` of its shard."""
        self._sequences += sequences
        self._examples += [example] * len(sequences)
        self._rows += [row] * len(sequences)

    def batch(self, *, shard: int, fingerprint: str, ids: npt.DTypeLike, patch_pixels: int) -> pa.RecordBatch:
        """Rows of a shard of sequences.

        Args:
            shard: place of the examples' shard in the list of the dataset that is written.
            fingerprint: of the stage's recipe, for the ids of sequences.
            ids: type of token ids.
            patch_pixels: pixels of a patch of the recipe's image processor, for the cost.
        """
        found, examples = self._sequences, self._examples
        tokens = np.array([sequence.num_tokens for sequence in found], np.int64)
        flat = np.frombuffer(b"".join(sequence.objectives for sequence in found), np.uint8)
        slots = [sequence.slots for sequence in found]
        pixels = np.array([sequence.num_pixels for sequence in found], np.int64)
        schema = sequences_schema(pa.from_numpy_dtype(np.dtype(ids)))
        columns = {
            "sequence_id": [
                sequence_id(example.example_id, fingerprint, sequence.window)
                for example, sequence in zip(examples, found, strict=True)
            ],
            "example_id": [example.example_id for example in examples],
            "shard": np.full(len(found), shard, np.int32),
            "row": self._rows,
            "window": [sequence.window for sequence in found],
            "alternative": [sequence.alternative for sequence in found],
            "alternatives": [sequence.alternatives for sequence in found],
            "source": [example.source for example in examples],
            "group": [example.group for example in examples],
            "input_ids": _lists(tokens, _joined([sequence.input_ids for sequence in found], ids)),
            "objectives": _runs(tokens, flat),
            "documents": [sequence.documents for sequence in found],
            "slots": _lists(
                np.array([len(own) for own in slots], np.int64),
                pa.array(list(_slots(slots, examples)), SLOT),
            ),
            "prompt": [sequence.prompt for sequence in found],
            "num_tokens": tokens.astype(np.int32),
            "num_supervised": row_sums(bounds_of(tokens), flat != 0).astype(np.int32),
            "num_images": [len(own) for own in slots],
            "num_pixels": pixels,
            "cost": cost(tokens, pixels // patch_pixels),
        }
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in schema], schema=schema
        )


def lengths_of(batch: pa.RecordBatch, recipe: Recipe, *, shard: int, first: int, split: str) -> pa.RecordBatch:
    """The rows of tables/lengths for rows of a shard of sequences.

    Args:
        shard: place of that shard among the dataset's shards of sequences.
        first: row of the first of them there.
    """
    schema = lengths_schema(recipe.TARGETS)
    runs = batch.column("objectives")
    bounds = runs.offsets.to_numpy()
    kinds, counts = (runs.values.field(name).to_numpy() for name in ("objective", "length"))
    columns = {
        "shard": np.full(batch.num_rows, shard, np.int32),
        "row": np.arange(first, first + batch.num_rows, dtype=np.int32),
        "num_patches": batch.column("num_pixels").to_numpy() // recipe.patch_pixels,
        "split": pa.array([split] * batch.num_rows, pa.string()),
        "key": _first_bits(batch.column("sequence_id")),
        "example_key": _first_bits(batch.column("example_id")),
    }
    for name in recipe.TARGETS:
        own = np.where(kinds == OBJECTIVES[name], counts, 0).astype(np.int64)
        columns[f"supervised_{name}"] = row_sums(bounds, own)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[field.name]).cast(field.type) if field.name in columns else batch.column(field.name)
            for field in schema
        ],
        schema=schema,
    )


def totals_of(batch: pa.RecordBatch, lengths: pa.RecordBatch) -> dict[str, Counter[str]]:
    """Source -> totals of its sequences, for a batch and its lengths: sequences, tokens, supervised, images, ..."""
    sources = batch.column("source").dictionary_encode()
    codes = sources.indices.to_numpy()
    counted = {
        name.removeprefix("num_"): lengths.column(name).to_numpy().astype(np.int64)
        for name in lengths.schema.names
        if name.startswith(("num_", "supervised_"))
    }
    counted["pixels"] = batch.column("num_pixels").to_numpy().astype(np.int64)
    counted["sequences"] = np.ones(batch.num_rows, np.int64)
    return {
        source: Counter({unit: int(values[codes == code].sum()) for unit, values in counted.items()})
        for code, source in enumerate(sources.dictionary.to_pylist())
    }


def _slots(slots: Iterable[Sequence[Any]], examples: Iterable[Example]) -> Iterable[dict[str, Any]]:
    for own, example in zip(slots, examples, strict=True):
        for slot in own:
            yield {
                "start": slot.start,
                "count": slot.count,
                "image": slot.image,
                "asset_id": example.images[slot.image].asset_id,
                "height": slot.height,
                "width": slot.width,
                "used_height": slot.used_height,
                "used_width": slot.used_width,
                "ocr_labels": slot.ocr_labels,
                "reading_order": slot.reading_order,
            }


def _joined(arrays: list[Any], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.concatenate(arrays).astype(kind) if arrays else np.zeros(0, kind)


def _lists(counts: Counts, values: Any) -> pa.Array:
    """A list of `counts` of the values for each row."""
    offsets = bounds_of(counts).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values if isinstance(values, pa.Array) else pa.array(values))


def _runs(tokens: Counts, flat: npt.NDArray[np.uint8]) -> pa.Array:
    """The runs of equal bytes of each row, of which `flat` holds all, end to end."""
    bounds = bounds_of(tokens)
    changes = np.flatnonzero(np.diff(flat)) + 1
    starts = np.union1d(bounds[:-1][tokens > 0], changes)
    lengths = np.diff(np.append(starts, len(flat)))
    kind = pa.struct([("objective", pa.uint8()), ("length", pa.uint32())])
    runs = pa.StructArray.from_arrays([pa.array(flat[starts]), pa.array(lengths.astype(np.uint32))], fields=list(kind))
    return _lists(np.diff(np.searchsorted(starts, bounds)), runs)


def _first_bits(ids: pa.Array) -> npt.NDArray[np.uint64]:
    return np.array([int(text[:16], 16) for text in ids.to_pylist()], np.uint64)
