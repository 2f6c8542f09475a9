"""How good and how fast dedup is.

    python benchmarks/bench_dedup.py quality [--data DIR] [--part NAME] [--json]
    python benchmarks/bench_dedup.py speed [--texts N] [--images N] [--json]
    python benchmarks/bench_dedup.py semantic [--data DIR] [--json]
    python benchmarks/bench_dedup.py crowds [--words N] [--crops N] [--json]

`quality` runs the real stages over the truth sets of a folder like shared/data; a part that has no data there is left
out. Peers (imagehash, datasketch, rensa, datatrove: the extra `bench`) are measured in the same run where they are
installed. `speed` is from an ingested dataset to the committed view, with two workers, at a quarter, a half and all of
the texts. `crowds` is many pictures that look alike, through dedup, split and audit.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
from pathlib import Path
from typing import Any

from corpora import SHARED, make_corpus
from processes import adopt_orphans
from report import about, publish, table

PARTS = {
    "perceptual": ("dedup_images", "perceptual"),
    "pages": ("dedup_images", "pages"),
    "text": ("dedup_texts", "text"),
}
"""Section -> its module and function: data folder -> figures, None where the folder has none of its data."""
VERSIONS = ("shardkit", "numpy", "pyarrow", "pillow", "ImageHash", "datasketch", "rensa", "datatrove")


def quality(options: argparse.Namespace) -> dict[str, Any]:
    found = {}
    for name in options.part or PARTS:
        module, function = PARTS[name]
        section = getattr(importlib.import_module(module), function)(options.data)
        if section is not None:
            found[name] = section
    return found


def speed(options: argparse.Namespace) -> dict[str, Any]:
    adopt_orphans()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        sizes = {"texts": options.texts, "images": options.images, "pages": 0, "docs": 0}
        corpus = make_corpus(options.shared / "make_corpus.py", Path(folder, "corpus"), **sizes)
        found: dict[str, Any] = importlib.import_module("dedup_speed").speed(
            corpus,
            Path(folder),
            sizes=[options.texts // 4, options.texts // 2, options.texts],
            peer_texts=options.peer_texts,
            signatures=options.signatures,
        )
    return found


def semantic(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = importlib.import_module("dedup_semantic").semantic(options.data)
    return found


def crowds(options: argparse.Namespace) -> dict[str, Any]:
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder:
        made = importlib.import_module("dedup_crowds").crowds(
            options.data, Path(folder), words=options.words, crops=options.crops
        )
        return {"rows": made}


COMMANDS = {"quality": quality, "speed": speed, "semantic": semantic, "crowds": crowds}


def lines(found: Any, depth: int = 0) -> list[str]:
    """Nested figures as indented lines, rows of figures as a table."""
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return ["  " * depth + line for line in table(found)]
    out = []
    for name, value in found.items():
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            out += ["  " * depth + f"{name}:", *lines(value, depth + 1)]
        else:
            out.append("  " * depth + f"{name:24} {value}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("--shared", type=Path, default=SHARED, help="where make_corpus.py lies")
        command.add_argument("--json", action="store_true", dest="as_json")
        if name != "speed":
            command.add_argument("--data", type=Path, help="folder of truth sets (default: data in --shared)")
        if name == "quality":
            command.add_argument("--part", action="append", choices=list(PARTS), help="only this section; repeatable")
        if name == "crowds":
            command.add_argument("--words", type=int, default=3, help="pictures of each of 1,728 words")
            command.add_argument("--crops", type=int, default=600, help="of one photograph")
        if name == "speed":
            command.add_argument("--texts", type=int, default=200_000)
            command.add_argument("--images", type=int, default=20_000)
            command.add_argument("--peer-texts", type=int, default=8_000, help="that datatrove gets")
            command.add_argument("--signatures", type=int, default=5_000_000, help="of the bands alone")
            command.add_argument("--work", type=Path, help="where the temporary folder is made")
    options = parser.parse_args()
    if getattr(options, "data", True) is None:
        options.data = options.shared / "data"
    figures = COMMANDS[options.command](options)
    publish(about(*VERSIONS), figures, lines(figures), as_json=options.as_json)


if __name__ == "__main__":
    main()
