"""FUNSD as published: FOLDER/annotations/ID.json with FOLDER/images/ID.png."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.prepare.ingest.builders import picture

BROKEN = "form-07"
"""Two of its entities have one id."""


def form(number: int) -> dict[str, Any]:
    """A question, its answer in two words, a heading, and an empty field."""
    return {
        "form": [
            {
                "id": 0, "label": "question", "text": "Date:", "box": [2, 2, 20, 10], "linking": [[0, 1]],
                "words": [{"text": "Date:", "box": [2, 2, 20, 10]}],
            },
            {
                "id": 1, "label": "answer", "text": f"May {number}", "box": [22, 2, 50, 10], "linking": [[0, 1]],
                "words": [{"text": "May", "box": [22, 2, 36, 10]}, {"text": str(number), "box": [38, 2, 50, 10]}],
            },
            {
                "id": 2, "label": "header", "text": "REPORT", "box": [2, 12, 40, 20], "linking": [],
                "words": [{"text": "REPORT", "box": [2, 12, 40, 20]}],
            },
            {
                "id": 3, "label": "other", "text": "", "box": [2, 22, 40, 30], "linking": [],
                "words": [{"text": "", "box": [2, 22, 40, 30]}],
            },
        ]
    }  # fmt: skip


def write(folder: Path, count: int = 20) -> None:
    """`count` forms, one of them broken."""
    for name in ("annotations", "images"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        stem = f"form-{number:02d}"
        value = form(number)
        if stem == BROKEN:
            value["form"][1]["id"] = 0
        (folder / "annotations" / f"{stem}.json").write_text(json.dumps(value), encoding="utf-8")
        (folder / "images" / f"{stem}.png").write_bytes(picture(number, (60, 40)))
