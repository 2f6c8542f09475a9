"""What crowds cost: many pictures that look alike, of which few or all are near. What `bench_dedup.py crowds` runs.

words    drawn words of three letters (training/words.py), each some times: pages with short texts
crops    other cuts of one photograph, 2 to 13% less each way, beside one text: all of them one thing

From an ingested dataset to the committed view of dedup (level perceptual), to the committed split (default near edges,
no dedup before it) and to the audit of that, with two workers, at a half of the words or crops and at all of them:
processor seconds that double where the pictures do.
"""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image
from processes import shardkit


def crowds(data: Path, work: Path, *, words: int, crops: int) -> list[dict[str, Any]]:
    """Rows of figures.

    Args:
        words: pictures of each of the 1,728 words; 0 for none.
        crops: pictures; 0 for none.
    """
    found = []
    if words:
        whole, half = work / "words", work / "half"
        importlib.import_module("training.words").draw_words(whole, words)
        for number, word in enumerate(sorted(whole.iterdir())):
            if number % 2:
                shutil.copytree(word, half / word.name)
        found += [figures("words", ["ocr", raw], work / f"of-{raw.name}") for raw in (half, whole)]
    photographs = sorted((data / "photos").glob("*.jpg"))
    if crops and photographs:
        for count in (crops // 2, crops):
            rows = cut(photographs[0], work / f"crops-{count}", count)
            found.append(figures("crops", ["rows", rows], work / f"of-{count}"))
    return found


def cut(photograph: Path, folder: Path, count: int) -> Path:
    """folder/<number>.png, and rows with one text for all of them."""
    folder.mkdir()
    chance = Random(0)
    with Image.open(photograph) as file:
        whole = file.convert("RGB")
    whole.thumbnail((400, 400))
    lines = []
    for number in range(count):
        width, height = (round(side * (1 - chance.uniform(0.02, 0.13))) for side in whole.size)
        left, top = chance.randint(0, whole.width - width), chance.randint(0, whole.height - height)
        whole.crop((left, top, left + width, top + height)).save(folder / f"{number}.png")
        lines.append(json.dumps({"text": "<image>One text.", "images": [f"{number}.png"]}))
    rows = folder / "rows.jsonl"
    rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return rows


def figures(what: str, source: list[object], work: Path) -> dict[str, Any]:
    made, clean, parts = (work.with_name(f"{work.name}-{name}") for name in ("in", "clean", "split"))
    pictures = shardkit("ingest", *source, "-o", made, "--workers", 2).answer["kept"]
    # All of a crowd may be one group, and one split empty.
    runs = {
        "dedup": [
            *("dedup", made, "-o", clean, "--level", "perceptual", "--max-removed-per-source", 1),
        ],
        "split": [
            "split",
            made,
            "-o",
            parts,
            "--ratios",
            "train=0.95,val=0.05",
            "--allow-empty",
            "--max-group-share",
            1,
        ],
        "audit": ["audit", parts],
    }
    row: dict[str, Any] = {"what": what, "pictures": pictures}
    for name, command in runs.items():
        run = shardkit(*command, "--workers", 2)
        row |= {f"{name} cpu s": round(run.cpu, 1), f"{name} MB": round(run.parent_mb)}
        if name == "dedup":
            row["kept"] = run.answer["kept"]
    return row
