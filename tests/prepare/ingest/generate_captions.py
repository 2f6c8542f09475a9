"""Caption dumps in their published layouts, 20 items each and one of them broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.prepare.ingest.builders import jsonl, picture, tar

COUNT = 20
BROKEN = 7
"""The number of the item whose picture is cut off."""


def photo(number: int) -> bytes:
    """The picture of an item; half of it is missing from the broken one."""
    data = picture(number, kind="JPEG")
    return data[: len(data) // 2] if number == BROKEN else data


def address(number: int) -> str:
    return f"https://pictures.example/{number}.jpg"


def store(folder: Path) -> Path:
    """Fetched pictures and the map of their addresses; the map."""
    (folder / "store").mkdir(parents=True)
    for number in range(COUNT):
        (folder / "store" / f"{number}.jpg").write_bytes(photo(number))
    path = folder / "url_map.jsonl"
    path.write_bytes(jsonl([{"url": address(n), "file": f"store/{n}.jpg"} for n in range(COUNT)]))
    return path


def coco(folder: Path) -> Path:
    """annotations/captions_val2017.json with five captions an image, and val2017/; the folder."""
    (folder / "annotations").mkdir(parents=True)
    (folder / "val2017").mkdir()
    images, annotations = [], []
    for number in range(COUNT):
        name = f"{number:012d}.jpg"
        (folder / "val2017" / name).write_bytes(photo(number))
        images.append({"license": 1, "file_name": name, "coco_url": address(number), "height": 8, "width": 12, "id": 100 + number})  # fmt: skip
        annotations += [
            {"image_id": 100 + number, "id": 1000 + 5 * number + k, "caption": f"Caption {k} of picture {number}."}
            for k in range(5)
        ]
    document = {
        "info": {"year": 2017}, "images": images, "annotations": annotations[::-1],
        "licenses": [{"id": 1, "name": "Attribution License", "url": "https://licences.example/by/2.0/"}],
    }  # fmt: skip
    (folder / "annotations" / "captions_val2017.json").write_text(json.dumps(document))
    (folder / "annotations" / "instances_val2017.json").write_text(json.dumps({**document, "annotations": []}))
    return folder


def sbu(folder: Path) -> Path:
    """Columns of addresses, captions and users."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sbu-captions-all.json"
    document = {
        "image_urls": [address(n) for n in range(COUNT)],
        "captions": [f"My photo {n}" for n in range(COUNT)],
        "user_ids": [f"user{n % 4}" for n in range(COUNT)],
    }
    path.write_text(json.dumps(document))
    return path


def sbu_lines(folder: Path) -> Path:
    """The first published form: a file of addresses and one of captions, line by line."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "SBU_captioned_photo_dataset_{}.txt"
    (folder / name.format("urls")).write_text("".join(f"{address(n)}\n" for n in range(COUNT)))
    (folder / name.format("captions")).write_text("".join(f"My photo {n} .\n" for n in range(COUNT)))
    return folder


def laion_coco(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "URL": address(n), "TEXT": f"alt text {n}", "top_caption": f"best {n}", "all_captions": [f"best {n}", f"other {n}"],
            "all_similarities": [0.5, 0.25], "WIDTH": 12, "HEIGHT": 8, "similarity": 0.3, "hash": n, "pwatermark": 0.1,
            "punsafe": 0.01,
        }
        for n in range(COUNT)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "part.parquet")
    return folder / "part.parquet"


def laion_400m(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"SAMPLE_ID": n, "URL": address(n), "TEXT": f"t {n}", "LICENSE": "?", "NSFW": "UNLIKELY", "similarity": 0.31}
        for n in range(COUNT)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "part.parquet")
    return folder / "part.parquet"


def cc3m(folder: Path) -> Path:
    """caption TAB address, no header."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.tsv").write_text("".join(f'a "nice" caption {n}\t{address(n)}\n' for n in range(COUNT)))
    return folder / "train.tsv"


def cc12m(folder: Path) -> Path:
    """address TAB caption, no header."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cc12m.tsv").write_text("".join(f"{address(n)}\tcaption {n}\n" for n in range(COUNT)))
    return folder / "cc12m.tsv"


def img2dataset(folder: Path, failed: int = 3) -> Path:
    """00000.tar, 00000.parquet and 00000_stats.json: the table has rows of failed fetches too, the tar has not."""
    folder.mkdir(parents=True, exist_ok=True)
    members: list[tuple[str, bytes]] = []
    rows: list[dict[str, Any]] = []
    for number in range(COUNT + failed):
        key = f"{number:09d}"
        row = {
            "url": address(number), "caption": f"caption {number}", "key": key, "status": "success", "error_message": None,
            "width": 12, "height": 8, "sha256": "0" * 64, "similarity": 0.3 + number / 100, "punsafe": 0.01, "NSFW": "UNLIKELY",
        }  # fmt: skip
        if number >= COUNT:
            row |= {
                "status": "failed_to_download",
                "error_message": "404",
                "width": None,
                "height": None,
                "sha256": None,
            }
        else:
            facts = {"url": row["url"], "caption": row["caption"], "key": key, "width": 12, "height": 8}
            members += [
                (f"{key}.jpg", photo(number)),
                (f"{key}.txt", row["caption"].encode()),
                (f"{key}.json", json.dumps(facts).encode()),
            ]
        rows.append(row)
    (folder / "00000.tar").write_bytes(tar(members))
    pq.write_table(pa.Table.from_pylist(rows), folder / "00000.parquet")
    (folder / "00000_stats.json").write_text(json.dumps({"count": len(rows), "successes": COUNT}))
    return folder


BY_ADDRESS: dict[str, Callable[[Path], Path]] = {
    "cc3m": cc3m,
    "cc12m": cc12m,
    "laion-400m": laion_400m,
    "laion-coco": laion_coco,
    "sbu": sbu,
}
"""Recipe -> writer of a dump whose pictures come from `store`."""
