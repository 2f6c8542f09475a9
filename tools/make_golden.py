"""Write tests/golden: datasets of the current formats, and the ids of the whole road: `python -m tools.make_golden`.

Only when a format version was raised on purpose: equal formats must give equal bytes. Datasets of older versions stay.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from shardkit.cli import run
from shardkit.store.schema import FORMAT_VERSIONS
from tests.journey.road import dataset_id, walk

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SAMPLE = ROOT / "tests" / "data"
BOOK = "heine_reisebilder02_1827"
"""The few lines that the stored datasets hold."""


def ingest(lines: Path, out: Path, shards: str) -> None:
    """Ingest the lines of one book, in small units and shards."""
    options = ["--source", "dta", "--revision", "d004ab7", "--licence", "public domain", "--unit-size", "20000"]
    code = run(["ingest", "ocr", str(lines), "-o", str(out), "--shards", shards, *options, "--workers", "1", "--quiet"])
    if code != 0:
        sys.exit(f"ingest ended with {code}")


def book(sample: Path, out: Path) -> Path:
    """Copy the lines of the book to the new folder `out`."""
    out.mkdir(parents=True)
    for path in sorted((sample / "ocr").glob(f"{BOOK}_*")):
        shutil.copyfile(path, out / path.name)
    return out


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        lines = book(SAMPLE, work / "lines")
        for shards in ("arrow", "tar"):
            name = f"{shards}-{FORMAT_VERSIONS['dataset']}.{FORMAT_VERSIONS[shards]}"
            shutil.rmtree(GOLDEN / name, ignore_errors=True)
            ingest(lines, GOLDEN / name, shards)
        road = walk(work / "road", SAMPLE, workers=1)
        ids = {name: dataset_id(path) for name, path in road.stages.items()}
    (GOLDEN / "ids.json").write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
