"""MMC4 as published: a document a line, its pictures by name in a folder, one document broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.prepare.ingest.builders import jsonl, picture

BROKEN = 7
"""Place of a document whose picture is matched with a sentence that is not there."""


def document(number: int) -> dict[str, Any]:
    """Three sentences, the last two with a picture."""
    return {
        "url": f"https://host/{number}.html",
        "text_list": [f"One {number}.", "Two.", "Three."],
        "image_info": [
            {
                "image_name": f"{number}-{place}.png", "raw_url": f"https://host/{number}/{place}.png",
                "matched_text_index": 9 if number == BROKEN else 3 - place, "matched_sim": 0.25 * place,
                "face_detections": None,
            }
            for place in (1, 2)
        ],
        "similarity_matrix": [[0.1, 0.2, 0.25], [0.1, 0.5, 0.2]],
        "could_have_url_duplicate": 0,
    }  # fmt: skip


def write(folder: Path, count: int = 20) -> None:
    """`count` documents, one of them broken."""
    (folder / "images").mkdir(parents=True)
    (folder / "docs_shard_0_v2.jsonl").write_bytes(jsonl([document(number) for number in range(count)]))
    for number in range(count):
        for place in (1, 2):
            (folder / "images" / f"{number}-{place}.png").write_bytes(picture(10 * number + place))
