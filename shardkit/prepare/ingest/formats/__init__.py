"""The source formats: one file each, one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats import caption, chat, obelics, ocr, rows, text
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.record import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    drafts: Callable[[Record, IngestConfig, Reader], Iterator[Draft]]
    """A record as the format understands it."""
    containers: tuple[str, ...]
    """How its records may be kept: keys of CONTAINERS."""
    fields: tuple[str, ...]
    """What --field can map."""
    required: Required = ()
    """Columns that a table must have."""
    labels: tuple[str, ...] = ()
    """Suffixes of label files in folders."""
    on_missing_image: str = "drop-document"


_CAPTION = Source(
    drafts=caption.drafts,
    containers=caption.CONTAINERS,
    fields=caption.FIELDS,
    required=caption.REQUIRED,
    labels=caption.LABELS,
)
_ROWS = Source(drafts=rows.drafts, containers=rows.CONTAINERS, fields=rows.FIELDS, required=rows.REQUIRED)

SOURCES: dict[str, Source] = {
    "rows": _ROWS,
    "jsonl": _ROWS,
    "caption": _CAPTION,
    "webdataset": Source(drafts=caption.drafts, containers=("tar",), fields=caption.FIELDS),
    "ocr": Source(drafts=ocr.drafts, containers=ocr.CONTAINERS, fields=ocr.FIELDS, labels=ocr.LABELS),
    "obelics": Source(
        drafts=obelics.drafts,
        containers=obelics.CONTAINERS,
        fields=obelics.FIELDS,
        required=obelics.REQUIRED,
        on_missing_image="drop-image",
    ),
    "chat": Source(drafts=chat.drafts, containers=chat.CONTAINERS, fields=chat.FIELDS),
    "text": Source(drafts=text.drafts, containers=text.CONTAINERS, fields=text.FIELDS, required=text.REQUIRED),
}
"""Name on the command line -> source; `jsonl` is rows, `webdataset` is caption for tars."""
