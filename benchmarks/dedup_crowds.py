"""What crowds cost: many pictures that look alike, of which few or all are near. What `bench_dedup.py crowds` runs.

words    drawn words of three letters (bench_vision.py, which needs torch), each some times: pages with short texts
crops    other cuts of one photograph, 2 to 13% less each way, without a text: all of them one thing

From an ingested dataset to the committed view of dedup (level perceptual), to the committed split (default near edges,
no dedup before it) and to the audit of that, with two workers, at a half and at all of the pictures: processor seconds
that double where the pictures do.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from random import Random
from typing import Any

from bench_ingest import measured
from PIL import Image

SHARDKIT = [sys.executable, "-m", "shardkit"]


def crowds(data: Path, work: Path, *, words: int, crops: int) -> list[dict[str, Any]]:
    """Rows of figures.

    Args:
        words: pictures of each of the 1,728 words; an even number, or 0.
        crops: pictures; 0 for none.
    """
    found = []
    for share in (2, 1):
        if words:
            raw = work / f"words-{share}"
            importlib.import_module("bench_vision").draw_words(raw, words // share)
            found.append(figures("words", "ocr", raw, work / f"w{share}"))
    photographs = sorted((data / "photos").glob("*.jpg"))
    for share in (2, 1):
        if crops and photographs:
            raw = work / f"crops-{share}"
            cut(photographs[0], raw, crops // share)
            found.append(figures("crops", "caption", raw, work / f"c{share}"))
    return found


def cut(photograph: Path, folder: Path, count: int) -> None:
    """folder/<number>.png"""
    folder.mkdir()
    chance = Random(0)
    with Image.open(photograph) as file:
        whole = file.convert("RGB")
    whole.thumbnail((400, 400))
    for number in range(count):
        width, height = (round(side * (1 - chance.uniform(0.02, 0.13))) for side in whole.size)
        left, top = chance.randint(0, whole.width - width), chance.randint(0, whole.height - height)
        whole.crop((left, top, left + width, top + height)).save(folder / f"{number:05d}.png")


def figures(what: str, source: str, raw: Path, work: Path) -> dict[str, Any]:
    quiet = ["--json", "--quiet", "--workers", 2]
    made, clean, parts = (work.with_name(f"{work.name}-{name}") for name in ("in", "clean", "split"))
    missing = ["--on-missing-label", "keep"] if source == "caption" else []
    pictures = measured([*SHARDKIT, "ingest", source, raw, "-o", made, *missing, *quiet]).answer["kept"]
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
        run = measured([*SHARDKIT, *command, *quiet])
        row |= {f"{name} cpu s": round(run.cpu, 1), f"{name} MB": round(run.parent_mb)}
        if name == "dedup":
            row["kept"] = run.answer["kept"]
    return row
