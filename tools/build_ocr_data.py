"""Turn folders of page images and their labels into the row schema.

    python tools/build_ocr_data.py --input pages --output rows.jsonl
    python tools/build_ocr_data.py --input demo --output demo.jsonl --demo      makes the four demo images in demo/ first

Every pair that `shardkit ingest ocr` keeps becomes a line: `text` ("<image> ..."), `images` (paths relative to the output's
folder), `image_sizes` [[height, width]], and `ocr_labels` and `reading_order` where the label has them. What it leaves out is
counted by reason on stderr. Then: shardkit ingest rows rows.jsonl --images FOLDER -o DATASET.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from shardkit.errors import OutputError, ShardkitError
from shardkit.prepare.ingest import IngestConfig, run
from shardkit.records import Example
from shardkit.store.dataset import Dataset

DEMO_IMAGES = 4
DEMO_SIDE = 64
"""Pixels."""


def make_demo(folder: Path) -> None:
    """Four 64 x 64 images with a label each: three token ids below 16 and the order of three patches."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(DEMO_IMAGES):
        image = Image.new("RGB", (DEMO_SIDE, DEMO_SIDE), "white")
        ImageDraw.Draw(image).rectangle((8 * i, 8 * i, 8 * i + 24, 8 * i + 24), fill=(60 * i, 90, 200 - 40 * i))
        image.save(folder / f"demo_{i}.png")
        label = {"text": f"demo {i}", "ocr_labels": [i % 16, (i + 1) % 16, (i + 2) % 16], "reading_order": [0, 1, 2]}
        (folder / f"demo_{i}.json").write_text(json.dumps(label) + "\n", encoding="utf-8")


def rows(folder: Path, output: Path) -> Iterator[dict[str, Any]]:
    """The rows of the pairs in `folder`, as they stand in a file at `output`."""
    with tempfile.TemporaryDirectory() as scratch:
        result = run(IngestConfig(format="ocr", paths=(folder,), output=Path(scratch) / "pages", workers=_cores()))
        dataset = Dataset.open(Path(scratch) / "pages")
        names = dataset.table("examples", ["input"])["input"].to_pylist()
        pages = Counter(names)
        for name, (_, _, example) in zip(names, dataset.examples(), strict=True):
            if pages[name] > 1:
                result.tally.excluded["several_pages"] += 1  # a path names a file, not a page of it
                continue
            yield _row(example, os.path.relpath(folder / name, output.parent))
    for reason, count in result.tally.excluded.most_common():
        print(f"left out {count}: {reason}", file=sys.stderr)


def _row(example: Example, path: str) -> dict[str, Any]:
    image = example.images[0]
    row: dict[str, Any] = {
        "text": f"<image> {example.text}".rstrip(),
        "images": [path.replace(os.sep, "/")],
        "image_sizes": [[image.height, image.width]],
    }
    if image.ocr_labels is not None:
        row["ocr_labels"] = [list(image.ocr_labels)]
    if image.reading_order is not None:
        row["reading_order"] = [list(image.reading_order)]
    return row


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def write(folder: Path, output: Path) -> int:
    """Write the rows of `folder` to `output`, whole or not at all; how many there are."""
    temporary = output.with_name(f".{output.name}.part")
    number = 0
    try:
        with temporary.open("w", encoding="utf-8") as file:
            for row in rows(folder, output):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                number += 1
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    return number


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--input", type=Path, required=True, metavar="DIR", help="the folder of images and labels")
    parser.add_argument(
        "--output", type=Path, required=True, metavar="FILE.jsonl", help="the rows; its folder must exist"
    )
    parser.add_argument("--demo", action="store_true", help="make four demo images in DIR first")
    given = parser.parse_args(words)
    try:
        if not given.output.resolve().parent.is_dir():
            raise OutputError(
                "there is no folder for the output", where=str(given.output), hint="make it, or give another --output"
            )
        if given.demo:
            make_demo(given.input)
        number = write(given.input.resolve(), given.output.resolve())
    except ShardkitError as error:
        print(f"{error}\nNext: {error.hint}" if error.hint else str(error), file=sys.stderr)
        return error.exit_code
    print(f"{given.output}\t{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
