"""Inputs -> slices -> chunks: what the parent process does before workers see a record."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import lines, pairs, parquet, tables, tars
from shardkit.prepare.ingest.containers.lines import LineChunk
from shardkit.prepare.ingest.containers.pairs import PairChunk
from shardkit.prepare.ingest.containers.parquet import BatchChunk
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.containers.tables import TableChunk
from shardkit.prepare.ingest.containers.tars import SampleChunk
from shardkit.prepare.ingest.formats import Source
from shardkit.prepare.ingest.formats.fields import check_columns
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.units import Slice, Unit, gather

Chunk = LineChunk | TableChunk | BatchChunk | SampleChunk | PairChunk

CONTAINERS: dict[str, ModuleType] = {
    "jsonl": lines,
    "table": tables,
    "parquet": parquet,
    "tar": tars,
    "files": pairs,
}
"""How records are kept -> the module that plans, chunks and reads it."""


def units(listing: Listing, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Unit]:
    """The units of a run, in order; every input's form is checked before its first slice comes."""
    return gather(_slices(listing, source, config, opener), max_bytes=config.unit_size)


def _slices(listing: Listing, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    for kind, file in listing.inputs:
        if kind == "files":
            yield from pairs.plan(listing.files, source.labels, file, max_bytes=config.unit_size)
            continue
        module = CONTAINERS[kind]
        if kind in ("table", "parquet"):
            check_columns(file, module.header_of(file), source.required, config)
        yield from module.plan(file, config, opener)


def chunks(piece: Slice, source: Source, config: IngestConfig, opener: Opener) -> Iterator[Chunk]:
    """The chunks of a slice, in order."""
    if piece.container == "files":
        yield pairs.pairs(piece, source.labels)
    else:
        yield from CONTAINERS[piece.container].chunks(piece, config, opener)
