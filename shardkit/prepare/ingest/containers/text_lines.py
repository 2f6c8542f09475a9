"""Label lists: one entry a line of text, cut and read like JSON lines; what a line means is the format's part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import lines
from shardkit.prepare.ingest.containers.lines import LineChunk, broken, check, chunks
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.record import Record, exclusion
from shardkit.prepare.ingest.units import InputFile, Slice
from shardkit.records import Exclusion

__all__ = ["check", "chunks", "plan", "records"]


def plan(file: InputFile, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    """Slices of at most `config.unit_size` bytes that begin at line starts."""
    for piece in lines.plan(file, config, opener):
        yield replace(piece, container="lines")


def records(chunk: LineChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """The lines of a chunk as texts, without their ends, and exclusions in their places; blank lines are nothing."""
    if chunk.changes:
        yield chunk.changes
    if (found := broken(chunk)) is not None:
        yield found
        return
    if not chunk.data:
        return
    loose: Counter[str] = Counter()
    for offset, line in enumerate(chunk.data.split(b"\n")):
        data = line.removesuffix(b"\r")
        loose["crlf_line"] += data is not line
        if not data.strip():
            loose["blank_line"] += 1
            continue
        position = str(chunk.first + offset)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            detail = f"byte {error.start} of the line, 0x{data[error.start]:02x}, is no UTF-8"
            yield exclusion(chunk.input, position, "invalid_utf8", detail)
            continue
        yield Record(input=chunk.input, position=position, value=text, folder=chunk.folder)
    if +loose:
        yield +loose
