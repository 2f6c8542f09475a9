"""What a worker does: some rows of one shard of examples to rows of a shard of sequences."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardkit.errors import ConfigError
from shardkit.prepare.tokenize.lengths import count, length_row
from shardkit.sequence.recipes import Recipe, names_of
from shardkit.sequence.sequence import id_type, sequence_id
from shardkit.store.dataset import Dataset
from shardkit.store.rows import from_row
from shardkit.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from shardkit.records import Example
    from shardkit.sequence.sequence import Sequence as TokenSequence

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

    sequences: list[dict[str, Any]] = field(default_factory=list)
    """Rows of a shard of sequences."""
    lengths: list[dict[str, Any]] = field(default_factory=list)
    """Their rows of tables/lengths, which still lack shard, row and split."""
    totals: dict[str, Counter[str]] = field(default_factory=dict)
    """By source: examples, sequences, tokens, ..."""
    kept: int = 0
    """Rows that gave sequences."""
    excluded: list[Left] = field(default_factory=list)
    """The other rows."""
    changes: Counter[str] = field(default_factory=Counter)


def tokenize_chunk(job: Job, chunk: Chunk) -> Tokenized:
    """Build the sequences of a chunk; the tokenizer and the shard stay open for the next one."""
    tokenizer = _tokenizer(job.tokenizer, tuple(names_of(job.recipe)), job.digest)
    processor = job.recipe.image_processor()
    examples = _read(_table(chunk.dataset, chunk.shard, job.bases), chunk.rows)
    encoder = _Encoded(tokenizer, examples)
    ids = id_type(tokenizer.vocab_size)
    done = Tokenized()
    for row, example in zip(chunk.rows, examples, strict=True):
        built = job.recipe.build(example, encoder, processor, job.max_tokens, job.overlong)
        if built.reason:
            left = Left(row=row, example_id=example.example_id, reason=built.reason, detail=built.detail)
            done.excluded.append(left)
            continue
        done.kept += 1
        done.changes.update(built.changes)
        done.changes[TEXTS_CHANGED] += encoder.changed(example)
        place = {
            "example_id": example.example_id,
            "shard": chunk.referenced,
            "row": row,
            "source": example.source,
            "group": example.group,
        }
        totals = done.totals.setdefault(example.source, Counter())
        totals["examples"] += 1
        for sequence in built.sequences:
            done.sequences.append(_row(sequence, place, job.fingerprint, ids))
            done.lengths.append(length_row(done.sequences[-1], job.recipe))
            count(totals, done.sequences[-1], done.lengths[-1], job.recipe)
    return done


def _row(sequence: TokenSequence, place: Mapping[str, Any], fingerprint: str, ids: Any) -> dict[str, Any]:
    return {
        "sequence_id": sequence_id(place["example_id"], fingerprint, sequence.window),
        **place,
        "window": sequence.window,
        "input_ids": sequence.input_ids.astype(ids),
        "objectives": sequence.objectives,
        "slots": [asdict(slot) for slot in sequence.slots],
        "num_tokens": sequence.num_tokens,
        "num_supervised": sequence.num_supervised,
    }


class _Encoded:
    """An encoder that has met the texts of some examples already, all in one batch."""

    def __init__(self, tokenizer: Tokenizer, examples: Sequence[Example]) -> None:
        self._tokenizer = tokenizer
        self.controls = tokenizer.controls
        texts = list(dict.fromkeys(text for example in examples for text in _texts(example)))
        self._known = dict(zip(texts, tokenizer.encode_batch(texts), strict=True))

    def encode(self, text: str) -> list[int]:
        if text not in self._known:
            self._known[text] = self._tokenizer.encode(text)
        return self._known[text]

    def changed(self, example: Example) -> int:
        """How many texts of `example` do not come back from their ids."""
        if self._tokenizer.lossless:
            return 0
        return sum(not self._tokenizer.keeps(text, self._known[text]) for text in _texts(example))


def _texts(example: Example) -> list[str]:
    return [segment.text for segment in example.segments if segment.text]


def _read(table: pa.Table, rows: Sequence[int]) -> list[Example]:
    """The examples without the bytes of their images, which no recipe needs."""
    low = min(rows)
    # Taking from the whole table would copy all of it first; a slice is free.
    near = table.slice(low, max(rows) - low + 1).take([row - low for row in rows])
    return [
        from_row({**row, "images": [{**image, "bytes": b""} for image in row["images"]]}) for row in near.to_pylist()
    ]


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
