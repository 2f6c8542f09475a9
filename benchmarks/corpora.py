"""The generated corpus of the shared folder: how it is made, and how each of its families is ingested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
"""Where make_corpus.py and data/ lie, if nobody says otherwise."""


def make_corpus(script: Path, out: Path, **options: object) -> Path:
    """Run make_corpus.py, unless `out` is there already.

    Args:
        options: its options, as images=20_000.
    """
    if not out.exists():
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        subprocess.run([sys.executable, str(script), "--out", str(out), *words], check=True, capture_output=True)
    return out


def inputs(kind: str, corpus: Path) -> list[object]:
    """What follows `shardkit ingest` for a family of the corpus: caption, ocr or obelics."""
    pages = corpus / "obelics"
    maps = [part for path in sorted(pages.glob("url_map*.jsonl")) for part in ("--url-map", path)]
    found: dict[str, list[object]] = {
        "caption": ["caption", *sorted((corpus / "captions").glob("*.tar"))],
        "ocr": ["ocr", corpus / "ocr"],
        "obelics": ["obelics", *sorted(pages.glob("*.parquet")), "--images", pages, *maps],
    }
    return found[kind]
