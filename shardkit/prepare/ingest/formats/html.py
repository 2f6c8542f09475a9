"""html: folders of web pages with their pictures beside them; a file is a record.

The text is what a reader sees, in paragraphs; code blocks are kept as they are; scripts, styles, forms and frames are
dropped and counted. Pictures are files inside the roots, or addresses that --url-map knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.page_file import page_draft, page_text
from shardkit.prepare.ingest.formats.web_text import read_html
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.record import Record

CONTAINERS = ("files",)
FIELDS: tuple[str, ...] = ()
LABELS = (".html", ".htm", ".xhtml")


def drafts(record: Record, _config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one page.

    Raises:
        Bad: with the reason.
    """
    pair: Pair = record.value
    changes: Counter[str] = Counter()
    text = page_text(reader.below_root(pair.files[0]), changes)
    yield page_draft(read_html(text), record, reader, {}, changes)
