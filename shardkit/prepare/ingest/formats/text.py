"""text: one text a row, {"text": "..."}, as JSON lines, an array or Parquet; or one a file, in folders of .txt files.

Other fields of a row are kept as metadata. A file is UTF-8, and may be packed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.containers.streams import unpacked
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats import json_rows
from shardkit.prepare.ingest.formats.fields import text_field
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Segment

CONTAINERS = ("jsonl", "parquet", "arrow", "mds", "json", "files")
FIELDS = ("text",)
REQUIRED = (("text", ("text",)),)
LABELS = (".txt", ".txt.gz", ".txt.zst", ".txt.bz2")


def is_list(_name: str, head: bytes) -> bool:
    """Whether a JSON file in a folder, by its first bytes, is an array of texts."""
    return any(isinstance(row.get("text"), str) for row in json_rows.first_rows(head, 1))


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one row or file.

    Raises:
        Bad: with the reason.
    """
    row = record.value
    if isinstance(row, Pair):
        changes: Counter[str] = Counter()
        data = unpacked(reader.below_root(row.files[0]), config.limits.max_bytes)
        text = decoded(data, changes)
        if not text.strip():
            raise Bad("empty_text", "the file is empty or blank")
        yield Draft(
            input=record.input,
            position=record.position,
            segments=(Segment(kind="text", text=text),),
            group=record.input,
            changes=changes,
        )
        return
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
