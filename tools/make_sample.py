"""Cut the bundled sample (tests/data) out of larger real sets: `python tools/make_sample.py SHARED_DATA OUT`.

Every choice is by name order and counts, so the same sets give the same files. tests/data/SOURCE.md says where they come from.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

NUM_WITH_IMAGES = 16
NUM_TEXT_ONLY = 8
MAX_TEXT = 8_000
"""Characters a document of the sample may have."""
MAX_IMAGES = 5


def ocr(source: Path, out: Path) -> None:
    """Every third line: 60 lines of 19 books, each with its transcription and its note of origin."""
    out.mkdir(parents=True)
    stems = sorted(path.name.removesuffix(".gt.txt") for path in source.glob("*.gt.txt"))
    for stem in stems[::3]:
        for suffix in (".tif", ".gt.txt", ".yml"):
            shutil.copyfile(source / f"{stem}{suffix}", out / f"{stem}{suffix}")


def captions(source: Path, out: Path) -> None:
    """The first tar: 50 images, each with its alt text; and a table of 12 pairs, four of which the tar has too, word for word."""
    (out / "pictures").mkdir(parents=True)
    shutil.copyfile(source / "00000.tar", out / "00000.tar")
    rows = []
    for name, number in (("00000.tar", 4), ("00001.tar", 8)):
        with tarfile.open(source / name) as tar:
            members = {member.name: member for member in tar}
            keys = sorted({name.split(".")[0] for name in members})
            single = [key for key in keys if len(json.loads(_bytes(tar, members[f"{key}.json"]))["captions"]) == 1]
            for key in single[:number]:
                picture = next(f"{key}{suffix}" for suffix in (".jpg", ".png") if f"{key}{suffix}" in members)
                (out / "pictures" / picture).write_bytes(_bytes(tar, members[picture]))
                rows.append((f"pictures/{picture}", _bytes(tar, members[f"{key}.txt"]).decode()))
    with (out / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("image", "caption"), *rows])


def _bytes(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None, member.name
    return file.read()


def obelics(source: Path, out: Path) -> None:
    """Short pages with and without pictures, the Chinese version beside the English one, pictures that are missing too."""
    table = pq.read_table(source / "obelics.parquet")
    rows = table.to_pylist()
    pages = [json.loads(row["general_metadata"]) for row in rows]
    english: dict[str, list[int]] = {"microsoft/IoT-For-Beginners": [], "volcano-sh/website": []}
    for index, (row, page) in enumerate(zip(rows, pages, strict=True)):
        if page["language"] == "en" and sum(len(text) for text in row["texts"] if text) <= MAX_TEXT:
            english[page["repository"]].append(index)

    lessons = _some(rows, english["microsoft/IoT-For-Beginners"], NUM_WITH_IMAGES, NUM_TEXT_ONLY)
    translated = {f"translations/zh/{pages[index]['path']}" for index in lessons}
    lessons += [index for index, page in enumerate(pages) if page["path"] in translated]
    news = _some(rows, english["volcano-sh/website"], 8, 4)
    chosen = sorted(lessons + news)

    out.mkdir(parents=True)
    part = table.take(pa.array(chosen))
    pq.write_table(part.replace_schema_metadata(None), out / "obelics.parquet", compression="zstd")
    wanted = {url for row in part.column("images").to_pylist() for url in row if url}
    lines = [line for line in (source / "url_map.jsonl").read_text().splitlines() if json.loads(line)["url"] in wanted]
    (out / "url_map.jsonl").write_text("\n".join(lines) + "\n")
    for line in lines:
        name = json.loads(line)["file"]
        if name is not None and not (out / name).exists():
            (out / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, out / name)


def _some(rows: list[dict[str, Any]], candidates: list[int], num_with_images: int, num_text_only: int) -> list[int]:
    """The first candidates with pictures and the first without, in row order."""
    counts = {index: sum(url is not None for url in rows[index]["images"]) for index in candidates}
    with_images = [index for index in candidates if 0 < counts[index] <= MAX_IMAGES][:num_with_images]
    return with_images + [index for index in candidates if counts[index] == 0][:num_text_only]


def tokenizer(source: Path, out: Path) -> None:
    out.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, out / name)


def main(source: Path, out: Path) -> None:
    ocr(source / "ocr_lines_dta", out / "ocr")
    captions(source / "captions_alttext", out / "captions")
    obelics(source / "obelics_pages", out / "obelics")
    tokenizer(source / "tokenizers" / "minimind", out / "tokenizer")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
