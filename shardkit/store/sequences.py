"""Shards of sequences: their columns, the table of lengths that plans are made from, and what made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shardkit.errors import IntegrityError
from shardkit.store.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RECIPE = ("tokenizer", "vocab_size", "added_control_tokens", "recipe", "max_tokens", "overlong")

SLOT = pa.struct(
    [
        ("start", pa.int32()),
        ("count", pa.int32()),
        ("image", pa.int32()),
        ("asset_id", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("used_height", pa.int32()),
        ("used_width", pa.int32()),
        ("ocr_labels", pa.list_(pa.int32())),
        ("reading_order", pa.list_(pa.int32())),
    ]
)
"""An image of a sequence."""
_RUN = pa.struct([("objective", pa.uint8()), ("length", pa.uint32())])
"""Tokens side by side that count for the same as targets."""


def is_tokenized(dataset: Dataset) -> bool:
    """Whether a dataset is of sequences, though there may be none."""
    return dataset.has_table("lengths")


def sequences_schema(ids: pa.DataType) -> pa.Schema:
    """One row a sequence.

    `shard` and `row` lead to its example: place in the manifest's list of example shards, and row there.

    Args:
        ids: uint16 or uint32, the smallest type that holds the vocabulary.
    """
    return pa.schema(
        [
            ("sequence_id", pa.string()),
            ("example_id", pa.string()),
            ("shard", pa.int32()),
            ("row", pa.int32()),
            ("window", pa.int32()),
            ("alternative", pa.uint16()),
            ("alternatives", pa.uint16()),
            ("source", pa.string()),
            ("group", pa.string()),
            ("input_ids", pa.list_(ids)),
            ("objectives", pa.list_(_RUN)),
            ("documents", pa.list_(pa.int32())),
            ("slots", pa.list_(SLOT)),
            ("prompt", pa.large_string()),
            ("num_tokens", pa.int32()),
            ("num_supervised", pa.int32()),
            ("num_images", pa.int32()),
            ("num_pixels", pa.int64()),
            ("cost", pa.int64()),
        ]
    )


def lengths_schema(objectives: Iterable[str]) -> pa.Schema:
    """tables/lengths.parquet: one row a sequence, in the order of the sequence shards.

    `shard` and `row` are those of the sequence: place in the manifest's list of sequence shards, and row there. `key`
    is the first 64 bits of the sequence id, from which orders are drawn, `example_key` that of the example id.

    Args:
        objectives: those that the recipe gives, each with a column of its own.
    """
    return pa.schema(
        [
            ("shard", pa.int32()),
            ("row", pa.int32()),
            ("num_tokens", pa.int32()),
            ("num_supervised", pa.int32()),
            *((f"supervised_{objective}", pa.int32()) for objective in objectives),
            ("num_images", pa.int32()),
            ("num_patches", pa.int32()),
            ("alternative", pa.uint16()),
            ("alternatives", pa.uint16()),
            ("source", pa.string()),
            ("split", pa.string()),
            ("key", pa.uint64()),
            ("example_key", pa.uint64()),
        ]
    )


def sequence_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What made the sequences of a dataset: the recipe of tokenize, out of that of a stage that hands sequences on."""
    return {key: recipe[key] for key in _RECIPE if key in recipe}


def tokenizer_files(dataset: Dataset) -> dict[str, bytes]:
    """Path -> bytes of the files of the tokenizer that lies in a dataset of sequences.

    Raises:
        IntegrityError: where one is missing or damaged.
    """
    found = {}
    for file in dataset.manifest.files:
        if file.path.startswith("tokenizer/"):
            path = dataset.file(file.path, size=file.size, digest=file.xxh3)
            try:
                found[file.path] = path.read_bytes()
            except OSError as error:
                raise IntegrityError(
                    f"the file cannot be read ({error.strerror})", where=str(path), hint="restore it"
                ) from error
    return found
