"""The export formats: one file each, one line here."""

from __future__ import annotations

from shardkit.prepare.export.formats import croissant, hf, jsonl, parquet, webdataset
from shardkit.prepare.export.formats.format import Format

EXPORTS: dict[str, Format] = {
    "hf": hf.FORMAT,
    "webdataset": webdataset.FORMAT,
    "jsonl": jsonl.FORMAT,
    "parquet": parquet.FORMAT,
    "croissant": croissant.FORMAT,
}
"""Name on the command line -> format."""
