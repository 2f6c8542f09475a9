"""`shardkit tokenizer report`: what a tokenizer makes of the text of datasets, and what another one would."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from shardkit.engine import map_ordered, silent
from shardkit.engine.progress import Progress
from shardkit.errors import SourceError
from shardkit.prepare.dedup.inputs import Slice
from shardkit.prepare.tokenizer.config import Report, ReportConfig
from shardkit.prepare.tokenizer.measured import Measured
from shardkit.prepare.tokenizer.texts import open_sources, texts_of
from shardkit.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    tokenizers: tuple[Path, ...]


def report(config: ReportConfig, on_progress: Progress = silent) -> Report:
    """Encode every text and count.

    Raises:
        ConfigError: where a tokenizer cannot be read, or a dataset lacks the split.
        SourceError: where there is no text.
        IntegrityError: where an input is damaged.
    """
    paths = tuple(path.absolute() for path in (config.tokenizer, config.against) if path is not None)
    _load.cache_clear()
    tokenizers = [_load(path) for path in paths]
    sources = open_sources(config.inputs, split=config.split, bases=config.bases)
    pieces = [piece for source in sources for piece in source.slices()]
    sums = [Measured.of(tokenizer) for tokenizer in tokenizers]
    total, done = sum(len(piece.rows) for piece in pieces), 0
    results = map_ordered(partial(_measure, _Job(tokenizers=paths)), pieces, workers=config.workers)
    for piece, parts in zip(pieces, results, strict=True):
        for mine, part in zip(sums, parts, strict=True):
            mine.add(part)
        done += len(piece.rows)
        on_progress(done, total)
    if not sums[0].texts.total():
        raise SourceError("there is no text in it", where=str(config.inputs[0]), hint="name datasets with text")
    own = tokenizers[0]
    by_id = sorted(own.entries.items(), key=lambda item: item[1])
    unused = tuple(name for name, place in by_id if not sums[0].uses[place])
    found = Report(
        tokenizer=config.tokenizer,
        digest=own.digest,
        vocab_size=own.vocab_size,
        num_controls=len(own.controls),
        lossless=own.lossless,
        measured=sums[0],
        unused=unused,
    )
    if config.against is None:
        return found
    other = tokenizers[1]
    return replace(
        found,
        against=config.against,
        other=sums[1],
        shared=len(own.spellings & other.spellings),
        num_other=len(other.entries),
    )


def _measure(job: _Job, piece: Slice) -> list[Measured]:
    """What each tokenizer makes of a slice; run by a worker."""
    # Workers are the parallel part; a pool of threads in each would only make them wait for one another.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizers = [_load(path) for path in job.tokenizers]
    found = [Measured.of(tokenizer) for tokenizer in tokenizers]
    for texts in texts_of(piece):
        for mine, tokenizer in zip(found, tokenizers, strict=True):
            mine.add_texts(tokenizer, texts)
    return found


@lru_cache(maxsize=2)
def _load(path: Path) -> Tokenizer:
    return Tokenizer.load(path)
