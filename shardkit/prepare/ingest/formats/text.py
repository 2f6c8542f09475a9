"""text: one text a row, {"text": "..."}, as JSON lines or Parquet. Other fields are kept as metadata."""

from __future__ import annotations

from collections.abc import Iterator

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.fields import text_field
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Segment

CONTAINERS = ("jsonl", "parquet")
FIELDS = ("text",)
REQUIRED = (("text", ("text",)),)


def drafts(record: Record, config: IngestConfig, _reader: Reader) -> Iterator[Draft]:
    """The draft of one row.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if not isinstance(row, dict):
        raise Bad("not_an_object", f"the row is a JSON {type(row).__name__}, not an object")
    name = config.fields.get("text", "text")
    text = text_field(row, name)
    yield Draft(
        input=record.input,
        position=record.position,
        segments=(Segment(kind="text", text=text),),
        metadata={key: value for key, value in row.items() if key != name},
        changes=record.changes,
    )
