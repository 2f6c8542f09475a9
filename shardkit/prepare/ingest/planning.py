"""Inputs -> slices -> chunks: what the parent process does before workers see a record."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from shardkit.errors import SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import (
    arrow,
    documents,
    line_pairs,
    lines,
    mat,
    mds,
    pairs,
    parquet,
    tables,
    tars,
    text_lines,
)
from shardkit.prepare.ingest.containers.documents import EntryChunk
from shardkit.prepare.ingest.containers.line_pairs import LinePairChunk
from shardkit.prepare.ingest.containers.lines import LineChunk
from shardkit.prepare.ingest.containers.mat import MatChunk
from shardkit.prepare.ingest.containers.mds import MdsChunk
from shardkit.prepare.ingest.containers.pairs import PairChunk
from shardkit.prepare.ingest.containers.parquet import BatchChunk
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.containers.tables import TableChunk
from shardkit.prepare.ingest.containers.tars import SampleChunk
from shardkit.prepare.ingest.formats import Source
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.units import Slice, Unit, gather

Chunk = LineChunk | LinePairChunk | TableChunk | BatchChunk | SampleChunk | PairChunk | EntryChunk | MatChunk | MdsChunk

CONTAINERS: dict[str, ModuleType] = {
    "jsonl": lines,
    "table": tables,
    "parquet": parquet,
    "tar": tars,
    "files": pairs,
    "lines": text_lines,
    "line_pairs": line_pairs,
    "json": documents,
    "mat": mat,
    "arrow": arrow,
    "mds": mds,
}
"""How records are kept -> the module that checks, plans, chunks and reads it."""

_SHOWN = 10


def check_inputs(listing: Listing, source: Source, config: IngestConfig) -> None:
    """Look at the form of every input before the work begins, and refuse all that will not do in one go.

    Raises:
        SourceError: that names each of them.
    """
    errors = []
    for kind, file in listing.inputs:
        if kind != "files":
            try:
                CONTAINERS[kind].check(file, source.required, config)
            except SourceError as error:
                errors.append(error)
    if len(errors) > 1:
        shown = "; ".join(map(str, errors[:_SHOWN])) + ("; ..." if len(errors) > _SHOWN else "")
        raise SourceError(f"{len(errors)} inputs are refused: {shown}", hint=errors[0].hint)
    if errors:
        raise errors[0]


def units(listing: Listing, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Unit]:
    """The units of a run, in order."""
    return gather(_slices(listing, source, config, opener), max_bytes=config.unit_size)


def _slices(listing: Listing, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    for kind, file in listing.inputs:
        if kind == "files":
            yield from pairs.plan(
                listing.files,
                source.labels,
                file,
                max_bytes=config.unit_size,
                naming=listing.naming,
                peeks=source.peeks,
            )
            continue
        yield from CONTAINERS[kind].plan(file, config, opener)


def chunks(piece: Slice, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Chunk]:
    """The chunks of a slice, in order."""
    if piece.container == "files":
        yield pairs.pairs(piece, source.labels)
    elif piece.container == "json":
        assert source.entries is not None, "a format that reads documents knows their entries"
        yield from documents.chunks(piece, source.entries)
    else:
        yield from CONTAINERS[piece.container].chunks(piece, config, opener)


def weight(piece: Slice, chunk: Chunk) -> int:
    """Bytes of the input that a chunk of `piece` stands for, about: for people who wait."""
    if isinstance(chunk, LineChunk):
        return len(chunk.data) + chunk.too_long
    if isinstance(chunk, LinePairChunk):
        return sum(len(caption) + len(address) + 2 for caption, address in chunk.pairs)
    if isinstance(chunk, TableChunk):
        return sum(map(len, chunk.raw))
    if isinstance(chunk, SampleChunk):
        return sum(member.size for sample in chunk.samples for member in sample.members)
    if isinstance(chunk, MdsChunk):
        return sum(map(len, chunk.samples))
    if isinstance(chunk, BatchChunk):
        rows = 0 if chunk.batch is None else chunk.batch.num_rows
        return piece.size * rows // max(1, piece.end - piece.start)
    return piece.size if isinstance(chunk, PairChunk) else 0
