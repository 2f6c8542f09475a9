"""select, concat and the ingest of a grown dump on generated text rows, shrink on generated photographs.

    python benchmarks/bench_select.py [--rows N] [--images N] [--json]

Each figure stands beside its floor, measured in the same run: for select the same condition as a filter of plain pyarrow
over the same shards, for concat and growth a fresh ingest, for shrink a bare loop of decoding, resizing and encoding.
Equality is asserted first. Memory is the peak of the command's process; one worker everywhere.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image
from processes import shardkit as run
from report import about, publish, table

from shardkit.store.dataset import Dataset

WORDS = ["house", "tree", "river", "stone", "bright", "letter", "page", "under", "seven", "slow", "green", "paper"]
SIDES = (960, 640)
MAX_SIDE = 512


@dataclass(frozen=True, kw_only=True)
class Figure:
    what: str
    items: int
    seconds: float
    floor: float
    floor_is: str
    megabytes: float
    """Peak memory of the command."""


def shardkit(*arguments: object) -> tuple[float, float]:
    """Wall seconds and peak memory, in MB, of a command."""
    done = run(*arguments)
    return done.seconds, done.parent_mb


def timed(call: Callable[[], set[str]]) -> tuple[float, set[str]]:
    begin = time.perf_counter()
    found = call()
    return time.perf_counter() - begin, found


def write_rows(file: Path, first: int, count: int) -> None:
    chance = random.Random(first)
    with file.open("w") as lines:
        for number in range(first, first + count):
            text = " ".join(chance.choices(WORDS, k=chance.randint(2, 40))) + f" {number}"
            lines.write(json.dumps({"text": text, "score": number % 100 / 100}) + "\n")


def ids(path: Path) -> set[str]:
    return set(Dataset.open(path).table("examples", ["example_id"])["example_id"].to_pylist())


def filtered(path: Path, keep: Callable[[pa.Table], pa.Array]) -> set[str]:
    """The floor of select: a filter over the shards, read with plain pyarrow."""
    found: set[str] = set()
    for shard in Dataset.open(path).shards:
        with pa.memory_map(str(shard.path)) as source:
            table = pa.ipc.open_file(source).read_all().select(["example_id", "segments", "metadata"])
            found |= set(table["example_id"].filter(keep(table)).to_pylist())
    return found


def long_enough(table: pa.Table) -> pa.Array:
    texts = pc.struct_field(pc.list_flatten(table["segments"]), "text")  # each row has one
    return pc.greater(pc.utf8_length(texts), 100)


def good(table: pa.Table) -> pa.Array:
    return pa.array([json.loads(text)["score"] >= 0.5 for text in table["metadata"].to_pylist()])


def select_figures(work: Path, rows: int) -> list[Figure]:
    figures = []
    for where, keep in (("text_length > 100", long_enough), ("metadata.score >= 0.5", good)):
        out = work / f"selected-{len(figures)}"
        seconds, memory = shardkit("select", work / "old", "--where", where, "-o", out, "--workers", 1)
        floor, expected = timed(lambda keep=keep: filtered(work / "old", keep))
        assert ids(out) == expected, f"{where}: not the rows that plain pyarrow keeps"
        figures.append(
            Figure(
                what=f"select {where}", items=rows, seconds=seconds, floor=floor, floor_is="pyarrow", megabytes=memory
            )
        )
    return figures


def growth_figures(work: Path, rows: int) -> list[Figure]:
    write_rows(work / "dump" / "b.jsonl", rows, rows // 10)
    fresh, _ = shardkit("ingest", "rows", work / "dump", "-o", work / "fresh", "--workers", 1)
    since = ("--new-since", work / "old", "--workers", 1)
    grown, memory = shardkit("ingest", "rows", work / "dump", "-o", work / "new", *since)
    joined, joined_memory = shardkit("concat", work / "old", work / "new", "-o", work / "both")
    assert ids(work / "both") == ids(work / "fresh"), "the two together are not a fresh ingest"
    total = rows + rows // 10
    common = {"floor": fresh, "floor_is": "fresh ingest"}
    return [
        Figure(what="ingest --new-since", items=rows // 10, seconds=grown, megabytes=memory, **common),
        Figure(what="concat", items=total, seconds=joined, megabytes=joined_memory, **common),
    ]


def shrink_figures(work: Path, images: int) -> list[Figure]:
    folder = work / "photos"
    folder.mkdir()
    files = []
    for number in range(images):
        cells = np.random.default_rng(number).integers(0, 256, (SIDES[1] // 16, SIDES[0] // 16, 3), dtype=np.uint8)
        file = folder / f"{number:06d}.jpg"
        Image.fromarray(cells).resize(SIDES, Image.Resampling.BICUBIC).save(file, quality=90)
        file.with_suffix(".txt").write_text(f"photograph {number}")
        files.append(file)
    shardkit("ingest", "caption", folder, "-o", work / "large", "--workers", 1)
    seconds, memory = shardkit("shrink", work / "large", "--max-side", MAX_SIDE, "-o", work / "small", "--workers", 1)
    sizes = {
        max(image.width, image.height) for _, _, one in Dataset.open(work / "small").examples() for image in one.images
    }
    assert sizes == {MAX_SIDE}, sizes

    def bare() -> set[str]:
        for file in files:
            with Image.open(file) as image:
                small = image.convert("RGB").resize(
                    (MAX_SIDE, MAX_SIDE * SIDES[1] // SIDES[0]), Image.Resampling.LANCZOS
                )
            small.save(io.BytesIO(), "JPEG", quality=90, optimize=True)
        return set()

    floor, _ = timed(bare)
    return [Figure(what="shrink", items=images, seconds=seconds, floor=floor, floor_is="bare loop", megabytes=memory)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "dump").mkdir()
        write_rows(work / "dump" / "a.jsonl", 0, given.rows)
        shardkit("ingest", "rows", work / "dump", "-o", work / "old", "--workers", 1)
        figures = (
            select_figures(work, given.rows) + growth_figures(work, given.rows) + shrink_figures(work, given.images)
        )
    rows = [{**asdict(one), "items_per_second": one.items / one.seconds} for one in figures]
    facts = about("shardkit", "pyarrow", "pillow", "lark")
    publish(facts, {"figures": rows}, table(rows), as_json=given.json)


if __name__ == "__main__":
    main()
