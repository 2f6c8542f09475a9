"""PaddleOCR pages as its tools write them: a Label.txt with one line a picture."""

from __future__ import annotations

import json
from pathlib import Path

from tests.prepare.ingest.builders import picture

BROKEN = 8
"""The entry of this line is no JSON."""


def entries(number: int) -> list[dict[str, object]]:
    """A line that is read, one that is not, and one whose points are missing."""
    return [
        {"transcription": f"line {number}", "points": [[1, 1], [30, 2], [30, 9], [1, 8]], "difficult": False},
        {"transcription": "###", "points": [[1, 12], [30, 12], [30, 19], [1, 19]], "difficult": True},
        {"transcription": "no box", "points": []},
    ]


def write(folder: Path, count: int = 20) -> Path:
    """`count` pictures with their list, one line of it broken."""
    (folder / "pages").mkdir(parents=True)
    lines = []
    for number in range(1, count + 1):
        name = f"pages/p{number}.png"
        (folder / name).write_bytes(picture(number, (40, 24)))
        label = json.dumps(entries(number), ensure_ascii=False)
        lines.append(f"{name}\t{label[:-3] if number == BROKEN else label}\n")
    path = folder / "Label.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path
