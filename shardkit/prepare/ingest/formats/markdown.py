"""markdown: folders of Markdown pages with their pictures beside them; a file is a record.

CommonMark with tables and strikethrough, rendered and then read like HTML: the text is what a reader sees, code blocks are
kept as they are. Front matter (a block between two lines of `---` or `+++` at the head) is metadata.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from shardkit.errors import ConfigError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats.page_file import page_draft
from shardkit.prepare.ingest.formats.text_file import decoded
from shardkit.prepare.ingest.formats.web_text import read_html
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

CONTAINERS = ("files",)
FIELDS: tuple[str, ...] = ()
LABELS = (".md", ".markdown")

MAX_BYTES = 4 << 20
"""Of one page: the parser needs up to 0.1 ms a character, so a longer file would hold a worker for hours."""
MAX_NESTING = 100
"""Quotes and lists inside each other; deeper ones would be passed over without a word."""

_FRONT = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)


def drafts(record: Record, _config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """The draft of one page.

    Raises:
        Bad: with the reason.
    """
    pair: Pair = record.value
    data = reader.below_root(pair.files[0])
    if len(data) > MAX_BYTES:
        raise Bad("too_many_bytes", f"the page has {len(data)} bytes, the limit is {MAX_BYTES}")
    changes: Counter[str] = Counter()
    text = decoded(data, changes)
    metadata = {}
    if front := _FRONT.match(text):
        metadata["front_matter"] = front.group(2)
        text = text[front.end() :]
    yield page_draft(read_html(_rendered(text)), record, reader, metadata, changes)


def _rendered(text: str) -> str:
    """`text` as HTML."""
    parser = _parser()
    tokens = parser.parse(text)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        raise Bad("too_deep", f"quotes or lists are nested deeper than {MAX_NESTING}")
    rendered: str = parser.renderer.render(tokens, parser.options, {})
    return rendered


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise ConfigError("reading Markdown needs markdown-it-py", hint="pip install 'shardkit[web]'") from None
    parser = MarkdownIt("commonmark", {"html": True, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    # An address that a browser must not follow is an address all the same, and no text; where it leads is judged later.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # noqa: ARG005 - as the library's users do
    return parser
