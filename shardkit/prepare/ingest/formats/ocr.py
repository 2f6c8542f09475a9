"""ocr: pictures of pages or lines with what is written on them, side by side in folders.

    STEM.png (jpg, tif, webp, bmp) with STEM.gt.txt, STEM.txt or STEM.json

Every page of a multi-page TIFF is a record of its own; its label has as many pages, parted by form feeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import Pair
from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats.ocr_label import LABELS, Label, read_label
from shardkit.prepare.ingest.formats.tiff_pages import tiff_pages
from shardkit.prepare.ingest.reader import Reader
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment

CONTAINERS = ("files",)
FIELDS: tuple[str, ...] = ()

__all__ = ["CONTAINERS", "FIELDS", "LABELS", "drafts"]


def drafts(record: Record, config: IngestConfig, reader: Reader) -> Iterator[Draft]:
    """A draft for each page of one image file.

    Raises:
        Bad: with the reason.
    """
    pair: Pair = record.value
    changes: Counter[str] = Counter()
    name = pair.image()
    label = _label(pair, config, reader, changes)
    data = reader.below_root(name)
    pages = tiff_pages(data)
    labels = [label] if pages == 1 else _pages(label, pages)
    for page, one in enumerate(labels):
        yield Draft(
            input=name,
            position=pair.stem if pages == 1 else f"{pair.stem}#{page + 1}",
            segments=(
                Segment(kind="image", image=0),
                *([Segment(kind="text", text=one.text)] if one is not None else []),
            ),
            images=(
                ImageRef(
                    data=data,
                    name=base_name(name),
                    origin=name,
                    frame=page,
                    stated_size=one.stated_size if one is not None else None,
                    layout=one.layout if one is not None else None,
                ),
            ),
            relations=(_relation(one),) if one is not None else (),
            metadata=one.fields if one is not None else {},
            group=_group(name),
            changes=changes if page == 0 else Counter(),
        )


def _label(pair: Pair, config: IngestConfig, reader: Reader, changes: Counter[str]) -> Label | None:
    files = pair.label_files()
    if not files:
        if config.on_missing_label == "keep":
            changes["label_missing"] += 1
            return None
        raise Bad("missing_label", f"{pair.image()} has no label ({', '.join(LABELS)})")
    return read_label({kind: reader.below_root(file) for kind, file in files.items()}, changes)


def _relation(label: Label) -> Relation:
    annotator = label.fields.get("annotator")
    return Relation(kind="ocr", images=(0,), segments=(1,), annotator=annotator if isinstance(annotator, str) else None)


def _pages(label: Label | None, pages: int) -> list[Label | None]:
    if label is None:
        return [None] * pages
    parts = label.text.removesuffix("\f").split("\f")
    if len(parts) != pages or label.layout is not None:
        raise Bad("label_pages", f"the image file has {pages} pages, its label {len(parts)} (parted by form feeds)")
    return [Label(text=text.strip("\n"), fields=label.fields) for text in parts]


def _group(name: str) -> str:
    """The folder below the input root, else the file."""
    folder, slash, _ = name.partition("/")
    return folder if slash else name
