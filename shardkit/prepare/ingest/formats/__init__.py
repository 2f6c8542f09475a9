"""The source formats: one file each, one line here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.claims import Peek
from shardkit.prepare.ingest.containers.documents import Split
from shardkit.prepare.ingest.containers.naming import PLAIN, WHOLE, Naming
from shardkit.prepare.ingest.draft import Draft
from shardkit.prepare.ingest.formats import (
    caption,
    caption_json,
    chat,
    docbank,
    funsd,
    html,
    iit_cdip,
    json_rows,
    label_json,
    layout_head,
    layout_xml,
    markdown,
    mmc4,
    mmocr,
    obelics,
    ocr,
    paddleocr,
    quads,
    rows,
    synthtext,
    text,
    webdataset,
)
from shardkit.prepare.ingest.formats.label import Read
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.record import Record
from shardkit.records import Exclusion


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    drafts: Callable[[Record, IngestConfig, Reader], Iterator[Draft | Exclusion]]
    """A record as the format understands it; an exclusion in place of a part of it, such as a page."""
    containers: tuple[str, ...]
    """How its records may be kept: keys of CONTAINERS."""
    fields: tuple[str, ...]
    """What --field can map."""
    required: Required = ()
    """Columns that a table must have."""
    labels: tuple[str, ...] = ()
    """Suffixes of label files in folders."""
    naming: Naming = PLAIN
    """What is no part of a stem in folders where no image and label share one as they stand."""
    peeks: Mapping[str, Peek] = field(default_factory=dict)
    """Suffix -> how to find out what images such a label file names."""
    is_list: Callable[[str, bytes], bool] | None = None
    """Whether a file in a folder, by its name and first bytes, lists the records of the format."""
    entries: Split | None = None
    """The entries of a JSON document."""
    on_missing_image: str = "drop-document"


_CAPTION = Source(
    drafts=caption.drafts,
    containers=caption.CONTAINERS,
    fields=caption.FIELDS,
    required=caption.REQUIRED,
    labels=caption.LABELS,
    is_list=caption.is_list,
    entries=caption_json.entries,
)
_ROWS = Source(
    drafts=rows.drafts,
    containers=rows.CONTAINERS,
    fields=rows.FIELDS,
    required=rows.REQUIRED,
    is_list=json_rows.is_list,
    entries=json_rows.entries,
)


def _pairs(readers: Mapping[str, Read], naming: Naming = PLAIN, peeks: Mapping[str, Peek] | None = None) -> Source:
    """A format of pictures with one label file each."""
    return Source(
        drafts=partial(ocr.pair_drafts, readers=readers),
        containers=("files",),
        fields=(),
        labels=tuple(readers),
        naming=naming,
        peeks=peeks or {},
    )


SOURCES: dict[str, Source] = {
    "rows": _ROWS,
    "jsonl": _ROWS,
    "caption": _CAPTION,
    "webdataset": Source(drafts=webdataset.drafts, containers=("tar",), fields=caption.FIELDS),
    "ocr": Source(
        drafts=ocr.drafts,
        containers=ocr.CONTAINERS,
        fields=ocr.FIELDS,
        labels=ocr.LABELS,
        naming=ocr.NAMING,
        peeks=layout_head.PEEKS,
        is_list=ocr.is_list,
        entries=label_json.entries,
    ),
    "alto": _pairs(layout_xml.ALTO, peeks=layout_head.PEEKS),
    "page": _pairs(layout_xml.PAGE, peeks=layout_head.PEEKS),
    "hocr": _pairs(layout_xml.HOCR, peeks=layout_head.PEEKS),
    "docbank": _pairs(docbank.READERS, docbank.NAMING),
    "funsd": _pairs(funsd.READERS, funsd.NAMING),
    "icdar": _pairs(quads.READERS, quads.NAMING),
    "sroie": _pairs(quads.SROIE_READERS, quads.NAMING),
    "iit-cdip": _pairs(iit_cdip.READERS, peeks=layout_head.PEEKS),
    "paddleocr": Source(drafts=paddleocr.drafts, containers=paddleocr.CONTAINERS, fields=(), is_list=ocr.is_list),
    "mmocr": Source(
        drafts=mmocr.drafts, containers=mmocr.CONTAINERS, fields=(), is_list=ocr.is_mmocr_list, entries=mmocr.entries
    ),
    "synthtext": Source(drafts=synthtext.drafts, containers=synthtext.CONTAINERS, fields=()),
    "obelics": Source(
        drafts=obelics.drafts,
        containers=obelics.CONTAINERS,
        fields=obelics.FIELDS,
        required=obelics.REQUIRED,
        is_list=json_rows.is_list,
        entries=json_rows.entries,
        on_missing_image="drop-image",
    ),
    "chat": Source(
        drafts=chat.drafts,
        containers=chat.CONTAINERS,
        fields=chat.FIELDS,
        is_list=json_rows.is_list,
        entries=json_rows.entries,
    ),
    "mmc4": Source(
        drafts=mmc4.drafts,
        containers=mmc4.CONTAINERS,
        fields=mmc4.FIELDS,
        required=mmc4.REQUIRED,
        is_list=json_rows.is_list,
        entries=json_rows.entries,
        on_missing_image="drop-image",
    ),
    "markdown": Source(
        drafts=markdown.drafts,
        containers=markdown.CONTAINERS,
        fields=markdown.FIELDS,
        labels=markdown.LABELS,
        naming=WHOLE,
        on_missing_image="drop-image",
    ),
    "html": Source(
        drafts=html.drafts,
        containers=html.CONTAINERS,
        fields=html.FIELDS,
        labels=html.LABELS,
        naming=WHOLE,
        on_missing_image="drop-image",
    ),
    "text": Source(
        drafts=text.drafts,
        containers=text.CONTAINERS,
        fields=text.FIELDS,
        required=text.REQUIRED,
        labels=text.LABELS,
        naming=WHOLE,
        is_list=text.is_list,
        entries=json_rows.entries,
    ),
}
"""Name on the command line -> source; `jsonl` is rows, `webdataset` is caption for tars."""
