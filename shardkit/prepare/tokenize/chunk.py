"""What a worker does: some rows of one shard of examples to rows of a shard of sequences."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from shardkit.errors import ConfigError
from shardkit.prepare.tokenize.columns import Columns
from shardkit.sequence.recipes import Recipe, names_of
from shardkit.sequence.sequence import id_type
from shardkit.store.columns import examples_of
from shardkit.store.dataset import Dataset
from shardkit.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from shardkit.records import Example

_COLUMNS = ("example_id", "source", "group", "segments", "images", "relations", "metadata")
TEXTS_CHANGED = "texts_changed_by_tokenizer"
"""Counted in `changes`: texts that do not come back from their ids, because the vocabulary lacks what they need."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all chunks of a run have in common."""

    tokenizer: Path
    digest: str
    """Of the tokenizer with the recipe's control tokens."""
    recipe: Recipe
    max_tokens: int
    overlong: str
    fingerprint: str
    """Of the stage's whole recipe; part of every sequence id."""
    bases: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    dataset: Path
    shard: int
    """Place in the dataset's list of example shards."""
    referenced: int
    """Place of the same shard in the list of the dataset that is written."""
    rows: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """A row without a sequence."""

    row: int
    example_id: str
    reason: str
    detail: str


@dataclass(kw_only=True, slots=True)
class Tokenized:
    """What became of a chunk."""

    sequences: pa.RecordBatch
    """Rows of a shard of sequences."""
    examples: Counter[str] = field(default_factory=Counter)
    """By source: rows that gave sequences."""
    excluded: list[Left] = field(default_factory=list)
    """The other rows."""
    changes: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        """Rows that gave sequences."""
        return self.examples.total()


def tokenize_chunk(job: Job, chunk: Chunk) -> Tokenized:
    """Build the sequences of a chunk; the tokenizer and the shard stay open for the next one."""
    tokenizer = _tokenizer(job.tokenizer, tuple(names_of(job.recipe)), job.digest)
    processor = job.recipe.image_processor()
    examples = _examples(_table(chunk.dataset, chunk.shard, job.bases), chunk.rows)
    encoder = _Encoded(tokenizer, examples)
    columns, kept, excluded = Columns(), Counter[str](), list[Left]()
    changes: Counter[str] = Counter()
    for row, example in zip(chunk.rows, examples, strict=True):
        built = job.recipe.build(example, encoder, processor, job.max_tokens, job.overlong)
        if built.reason:
            left = Left(row=row, example_id=example.example_id, reason=built.reason, detail=built.detail)
            excluded.append(left)
            continue
        kept[example.source] += 1
        changes.update(built.changes)
        changes[TEXTS_CHANGED] += encoder.changed(example)
        columns.add(row, example, built.sequences)
    batch = columns.batch(
        shard=chunk.referenced,
        fingerprint=job.fingerprint,
        ids=id_type(tokenizer.vocab_size),
        patch_pixels=job.recipe.patch_pixels,
    )
    return Tokenized(sequences=batch, examples=kept, excluded=excluded, changes=changes)


class _Encoded:
    """An encoder that has met the texts of some examples already, all in one batch."""

    def __init__(self, tokenizer: Tokenizer, examples: Sequence[Example]) -> None:
        self._tokenizer = tokenizer
        self.controls = tokenizer.controls
        texts = list(dict.fromkeys(text for example in examples for text in _texts(example)))
        self._known = dict(zip(texts, tokenizer.encode_batch(texts), strict=True))

    def encode(self, text: str) -> list[int]:
        ids = self._known.get(text)
        if ids is None:
            ids = self._known[text] = self._tokenizer.encode(text)
        return ids

    def changed(self, example: Example) -> int:
        """How many texts of `example` do not come back from their ids."""
        if self._tokenizer.lossless:
            return 0
        return sum(not self._tokenizer.keeps(text, self._known[text]) for text in _texts(example))


def _texts(example: Example) -> list[str]:
    return [segment.text for segment in example.segments if segment.text]


def read_examples(dataset: Dataset, shard: int, rows: Sequence[int]) -> list[Example]:
    """Rows of a shard without the bytes of their images, which no recipe needs."""
    reader = dataset.reader(dataset.shards[shard])
    try:
        return _examples(reader.columns(_COLUMNS), rows)
    finally:
        reader.close()


def _examples(table: pa.Table, rows: Sequence[int]) -> list[Example]:
    low = min(rows)
    # Taking from the whole table would copy all of it first; a slice is free.
    near = table.slice(low, max(rows) - low + 1)
    if len(rows) < near.num_rows:
        near = near.take([row - low for row in rows])
    return examples_of(near.combine_chunks().to_batches()[0])


@lru_cache(maxsize=1)
def _tokenizer(path: Path, names: tuple[str, ...], digest: str) -> Tokenizer:
    # Workers are the parallel part; a pool of threads in each would only make them wait for one another.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizer = Tokenizer.load(path).with_controls(names)
    if tokenizer.digest != digest:
        raise ConfigError(
            f"the tokenizer changed during the run: its digest was {digest}, now {tokenizer.digest}",
            where=str(path),
            hint="run the same command again, with --overwrite if it says that the recipe differs",
        )
    return tokenizer


@lru_cache(maxsize=2)
def _table(dataset: Path, shard: int, bases: tuple[Path, ...]) -> pa.Table:
    """The columns of a shard but the bytes of images: views of the mapped file, checked once."""
    opened = _dataset(dataset, bases)
    return opened.reader(opened.shards[shard]).columns(_COLUMNS)


@lru_cache(maxsize=16)
def _dataset(dataset: Path, bases: tuple[Path, ...]) -> Dataset:
    return Dataset.open(dataset, base=bases)


def forget() -> None:
    """Let go of what this process keeps open between chunks."""
    for cache in (_tokenizer, _table, _dataset):
        cache.cache_clear()
