"""Labels of many pictures in one file: what every such format does with an entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shardkit.prepare.ingest.draft import Draft, ImageRef, base_name
from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.record import Record
from shardkit.records import Relation, Segment


def draft(
    record: Record, image: str, label: Label, changes: Counter[str], *, position: str = "", shorten: bool = False
) -> Draft:
    """The draft of one picture and its label. Its group is the picture, because a list of pictures is no book.

    Args:
        image: path as the data has it.
        shorten: where nothing lies at `image`, its shorter ends may be tried.

    Raises:
        Bad: where the label has neither a text nor boxes.
    """
    has_text = bool(label.text.strip())
    if not has_text and not label.layout and label.ocr_labels is None:
        raise Bad("empty_text", f"the label is {'blank' if label.text else 'empty'}")
    if not has_text:
        changes["page_without_text"] += label.ocr_labels is None
    return Draft(
        input=record.input,
        position=position or record.position,
        folder=record.folder,
        segments=(Segment(kind="image", image=0), *([Segment(kind="text", text=label.text)] if has_text else [])),
        images=(
            ImageRef(
                path=image,
                name=base_name(image),
                stated_size=label.stated_size,
                layout=label.layout,
                layout_size=label.grid,
                ocr_labels=label.ocr_labels,
                shorten=shorten,
            ),
        ),
        relations=(
            Relation(kind="ocr", images=(0,), segments=(1,) if has_text else (), annotator=annotator(label.fields)),
        ),
        metadata={"image": image, **label.fields},
        group_by_asset=True,
        changes=+changes,
    )


def annotator(fields: Mapping[str, Any]) -> str | None:
    """Who or what wrote the label, where it says so."""
    value = fields.get("annotator")
    return value if isinstance(value, str) and value.strip() else None
