"""Small examples and datasets, straight through the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardkit.records import Example, Exclusion, Image, LayoutItem, Relation, Segment, example_id
from shardkit.store import Dataset, Output, Sealed

RECIPE = {"format": "rows", "shards": "arrow"}


def make_example(number: int, *, num_images: int = 1, size: int = 40, source: str = "src") -> Example:
    """Every field in use: some null, some empty, text beyond ASCII."""
    images = tuple(
        Image(
            data=bytes([number % 251, place]) * (size // 2),
            asset_id=f"{number:032x}{place:032x}",
            stored_xxh3=f"{number:032x}",
            pixel_id=f"{place:032x}",
            media_type="image/jpeg" if number % 2 else "image/png",
            width=3 + place,
            height=4,
            path=f"{number}.jpg",
            ocr_labels=(1, 2) if number % 3 == 0 else None,
            reading_order=() if number % 4 == 0 else None,
            layout=(LayoutItem(level="line", text="x", polygon=(0.0, 0.5, 2.0, 3.0), order=0),) if number % 2 else None,
        )
        for place in range(num_images)
    )
    segments = (
        *(Segment(kind="image", image=place) for place in range(num_images)),
        Segment(kind="text", text=f"n\u00e9 {number}"),
    )
    relations = (Relation(kind="caption", images=(0,), segments=(num_images,), confidence=0.25),) if num_images else ()
    example = Example(source=source, segments=segments, images=images, relations=relations, metadata='{"n":1}')
    return replace(example, example_id=example_id(example))


def to_row(example: Example) -> dict[str, Any]:
    """The row of a shard as plain values: slow and obvious, beside `columns.to_facts`."""
    return {
        "example_id": example.example_id,
        "source": example.source,
        "group": example.group,
        "segments": [
            {
                "kind": s.kind,
                "text": s.text,
                "image": s.image,
                "role": s.role,
                "supervised": s.supervised,
                "name": s.name,
            }
            for s in example.segments
        ],
        "images": [_image_row(image) for image in example.images],
        "relations": [
            {
                "kind": r.kind,
                "images": list(r.images),
                "segments": list(r.segments),
                "scope": r.scope,
                "annotator": r.annotator,
                "confidence": r.confidence,
            }
            for r in example.relations
        ],
        "metadata": example.metadata,
    }


def _image_row(image: Image) -> dict[str, Any]:
    layout = image.layout
    return {
        "bytes": image.data,
        "path": image.path,
        "asset_id": image.asset_id,
        "frame": image.frame,
        "media_type": image.media_type,
        "width": image.width,
        "height": image.height,
        "pixel_id": image.pixel_id,
        "stored_xxh3": image.stored_xxh3,
        "ocr_labels": None if image.ocr_labels is None else list(image.ocr_labels),
        "reading_order": None if image.reading_order is None else list(image.reading_order),
        "layout": None
        if layout is None
        else [
            {
                "level": t.level,
                "text": t.text,
                "polygon": list(t.polygon),
                "parent": t.parent,
                "order": t.order,
                "confidence": t.confidence,
            }
            for t in layout
        ],
    }


def write_dataset(
    path: Path,
    units: Sequence[Sequence[Example]],
    *,
    shards: str = "arrow",
    shard_size: int = 400,
    recipe: dict | None = None,
    overwrite: bool = False,
) -> Dataset:
    """A committed dataset; each unit also excludes one row."""
    with Output(path, stage="ingest", recipe=recipe or RECIPE, inputs=["rows.jsonl"], overwrite=overwrite) as output:
        if output.unchanged is not None:
            return output.unchanged
        return fill(output, units, shards=shards, shard_size=shard_size)


def fill(
    output: Output, units: Sequence[Sequence[Example]], *, shards: str = "arrow", shard_size: int = 400
) -> Dataset:
    sealed = None
    for index, examples in enumerate(units):
        name = f"unit-{index}"
        if name not in output.receipts:
            with output.unit(index, name, shards=shards, shard_size=shard_size) as unit:
                for row, example in enumerate(examples):
                    assets = [{"asset_id": i.asset_id, "frame": i.frame, "size": len(i.data)} for i in example.images]
                    unit.add(example, input="rows.jsonl", position=str(row + 1), assets=assets)
                unit.exclude(
                    Exclusion(input="rows.jsonl", position="0", reason="no_text", detail="the row has no text")
                )
                unit.tally.read = len(examples) + 1
                unit.tally.kept = len(examples)
                unit.tally.excluded["no_text"] = 1
                unit.finish()
        tally = output.receipts[name].restored_tally()
        sealed = tally if sealed is None else sealed
        if sealed is not tally:
            sealed.add(tally)
    assert sealed is not None
    return output.commit(Sealed(tally=sealed))


def tree(folder: Path) -> dict[str, bytes]:
    """Relative path -> bytes of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
