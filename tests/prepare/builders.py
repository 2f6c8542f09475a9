"""Small datasets with real pictures, written through the store."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image as Picture
from PIL import PngImagePlugin

from shardkit.digest import xxh3
from shardkit.media.decode import DECODER
from shardkit.media.load import load
from shardkit.records import Example, Image, Relation, Segment, Tally, example_id
from shardkit.store import Dataset, Output, Sealed


def png(number: int = 0, *, side: int = 6, note: str | None = None, level: int = 6) -> bytes:
    """A picture that its number tells from others; `level` changes the bytes and not the pixels, `note` is metadata."""
    picture = Picture.new("RGB", (side, side))
    picture.putdata([((number * 37 + k) % 256, number % 256, number // 256 % 256) for k in range(side * side)])
    info = PngImagePlugin.PngInfo()
    if note is not None:
        info.add_text("comment", note)
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=level, pnginfo=info)
    return out.getvalue()


def image(data: bytes, **changes: Any) -> Image:
    media = load(data)
    made = Image(
        data=media.stored,
        asset_id=media.asset_id,
        stored_xxh3=media.stored_xxh3,
        pixel_id=media.pixel_id,
        media_type=media.media_type,
        width=media.width,
        height=media.height,
        frame=media.frame,
        path="picture.png",
    )
    return replace(made, **changes)


def example(
    text: str | None = None,
    *pictures: bytes,
    source: str = "test",
    group: str | None = None,
    turns: Sequence[tuple[str, str]] = (),
    **metadata: Any,
) -> Example:
    """Images first, then a text (or turns of role and text)."""
    images = tuple(image(data) for data in pictures)
    segments = [Segment(kind="image", image=place) for place in range(len(images))]
    if text is not None:
        segments.append(Segment(kind="text", text=text))
    segments += [Segment(kind="text", text=said, role=role) for role, said in turns]
    made = Example(
        source=source,
        segments=tuple(segments),
        images=images,
        relations=(Relation(kind="caption", images=tuple(range(len(images)))),) if images else (),
        metadata=json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False),
        group=group,
    )
    return replace(made, example_id=example_id(made))


def provenance(made: Example, position: str, licence: str | None, *, name: str = "rows.jsonl") -> list[dict[str, Any]]:
    common = {
        "example_id": made.example_id,
        "source": made.source,
        "input": name,
        "position": position,
        "licence": licence,
        "relation": made.relations[0].kind if made.relations else None,
        "group": made.group,
        "derived_recipe": "0" * 32,
    }
    rows = [
        {
            **common,
            "asset_id": one.asset_id,
            "frame": one.frame,
            "digest": f"sha256:{one.asset_id}",
            "decoder": DECODER,
            "preprocessing": "none" if load(one.data).asset_id == one.asset_id else "removed:comment",
        }
        for one in made.images
    ]
    return rows or [{**common, "digest": f"xxh3:{xxh3(made.text.encode())}"}]


def _looks(data: bytes) -> dict[str, Any]:
    found = load(data).looks
    return {
        "phash": found.phash,
        "phash_fine": found.phash_fine,
        "preview": found.preview,
        "class": found.picture_class,
    }


def write(
    path: Path,
    rows: Sequence[Example],
    *,
    positions: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    licences: Mapping[int, str] | None = None,
    shards: str = "arrow",
    shard_size: int = 1 << 20,
    unit_rows: int = 1000,
    recipe: Mapping[str, Any] | None = None,
    looks: bool = False,
) -> Dataset:
    """Commit `rows` as an ingested dataset; positions are row numbers from 1. With `looks`, pictures have hashes."""
    names = inputs or ["rows.jsonl"] * len(rows)
    with Output(path, stage="ingest", recipe={"made": "by hand", **(recipe or {})}, inputs=["rows.jsonl"]) as output:
        for index, start in enumerate(range(0, max(len(rows), 1), unit_rows)):
            with output.unit(index, f"unit-{index}", shards=shards, shard_size=shard_size) as unit:
                for number in range(start, min(start + unit_rows, len(rows))):
                    made = rows[number]
                    position = positions[number] if positions else str(number + 1)
                    assets = [
                        {
                            "asset_id": one.asset_id,
                            "frame": one.frame,
                            "size": len(one.data),
                            "stored_xxh3": one.stored_xxh3,
                            "pixel_id": one.pixel_id,
                            **(_looks(one.data) if looks else {}),
                        }
                        for one in made.images
                    ]
                    licence = (licences or {}).get(number)
                    unit.add(
                        made,
                        input=names[number],
                        position=position,
                        assets=assets,
                        provenance=provenance(made, position, licence, name=names[number]),
                    )
                unit.finish()
        return output.commit(Sealed(tally=Tally(read=len(rows), kept=len(rows))))


def texts(dataset: Dataset, split: str | None = None) -> list[str]:
    """Texts of the selected rows, sorted."""
    return sorted(made.text for _, _, made in dataset.examples(split))
