"""Prepared sets of others as datasets: which files belong to a set, and what its rows are; the rest is ingest.

A kind of set is one file here and one line in IMPORTS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from shardkit.prepare.import_ import hf, mds, webdataset
from shardkit.prepare.import_.found import Found

IMPORTS: dict[str, Callable[[Path], Iterator[Found]]] = {"hf": hf.find, "mds": mds.find, "webdataset": webdataset.find}
"""Name on the command line -> the files of a set at a PATH."""
