"""Benchmarks and training rows with texts that nobody else has."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image as Picture
from PIL import ImageDraw

from shardkit.digest import mix64
from shardkit.media.load import load
from shardkit.prepare.decontaminate.config import Benchmark, DecontaminateConfig, DecontaminateResult
from shardkit.prepare.decontaminate.run import run
from shardkit.records import Example, Tally
from shardkit.store import Dataset, Output, Sealed

SPEECH = (
    "Four score and seven years ago our fathers brought forth on this continent a new nation, conceived in liberty, "
    "and dedicated to the proposition that all men are created equal. Now we are engaged in a great civil war, testing "
    "whether that nation, or any nation so conceived and so dedicated, can long endure."
)


def words(seed: int, count: int) -> str:
    """`count` words that no other seed has in this order."""
    return " ".join(f"w{mix64(seed, k) % 5000}" for k in range(count))


def photo(seed: int, side: int = 160) -> bytes:
    """A picture of blobs that differ from seed to seed."""
    picture = Picture.new("RGB", (side, side), (30 + seed * 17 % 80, 60, 90))
    draw = ImageDraw.Draw(picture)
    for k in range(24):
        x, y, size = (mix64(seed, k, part) for part in (1, 2, 3))
        box = (x % side, y % side, x % side + 12 + size % 40, y % side + 12 + size % 40)
        draw.ellipse(box, fill=tuple(mix64(seed, k, part) % 256 for part in (4, 5, 6)))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def page(text: str, size: tuple[int, int] = (600, 400)) -> bytes:
    """Black print on white paper."""
    picture = Picture.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    for k, line in enumerate(text.split("\n")):
        draw.text((20, 20 + 14 * k), line, fill="black")
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def jpeg(data: bytes, quality: int = 80) -> bytes:
    out = io.BytesIO()
    Picture.open(io.BytesIO(data)).convert("RGB").save(out, "JPEG", quality=quality)
    return out.getvalue()


def write(path: Path, rows: Sequence[Example], *, unit_rows: int = 1000) -> Dataset:
    """Commit rows as ingest does, with the looks of their pictures."""
    with Output(path, stage="ingest", recipe={"made": str(len(rows))}, inputs=["rows.jsonl"]) as output:
        for number, start in enumerate(range(0, len(rows), unit_rows)):
            with output.unit(number, f"unit-{number}", shards="arrow", shard_size=1 << 22) as unit:
                for place in range(start, min(start + unit_rows, len(rows))):
                    assets = []
                    for image in rows[place].images:
                        looks = load(image.data).looks
                        assets.append(
                            {
                                "asset_id": image.asset_id,
                                "frame": image.frame,
                                "size": len(image.data),
                                "stored_xxh3": image.stored_xxh3,
                                "pixel_id": image.pixel_id,
                                "phash": looks.phash,
                                "phash_fine": looks.phash_fine,
                                "preview": looks.preview,
                                "class": looks.picture_class,
                            }
                        )
                    unit.add(rows[place], input="rows.jsonl", position=str(place + 1), assets=assets, provenance=[])
                unit.finish()
        return output.commit(Sealed(tally=Tally(read=len(rows), kept=len(rows))))


def jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def decontaminate(
    out: Path | None, inputs: Path | Sequence[Path], *benches: Path | tuple[str, Path], **options: Any
) -> DecontaminateResult:
    paths = (inputs,) if isinstance(inputs, Path) else tuple(inputs)
    named = [bench if isinstance(bench, tuple) else (bench.name.split(".")[0], bench) for bench in benches]
    config = DecontaminateConfig(
        inputs=paths,
        benchmarks=tuple(Benchmark(name=name, path=path) for name, path in named),
        output=out,
        dry_run=out is None,
        **options,
    )
    return run(config)


def corpus() -> list[str]:
    """60 documents of three paragraphs."""
    return ["\n\n".join(words(100 * k + part, 40) for part in range(3)) for k in range(60)]
