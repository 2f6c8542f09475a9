"""Are these the inputs that a dataset, or a unit of it, was made from? Every file is read again and compared."""

from __future__ import annotations

import os
from collections.abc import Iterable

from shardkit.errors import SourceError
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.roots import MISSING, FileRead, Roots, digest_input, still_missing
from shardkit.store.dataset import Dataset


def same_files(files: Iterable[FileRead], roots: Roots) -> bool:
    """Whether each file has the size and digest that were noted; one noted as missing must be missing."""
    return all(_same(file, roots) for file in files)


def _same(noted: FileRead, roots: Roots) -> bool:
    if noted.name.startswith(MISSING):
        return still_missing(noted, roots)
    path = roots.path(noted.name)
    if path is None:
        return False
    if noted.size < 0:
        return not os.path.isfile(path)
    try:
        if os.path.getsize(path) != noted.size:
            return False
        return not noted.xxh3 or digest_input(path, noted.name).xxh3 == noted.xxh3
    except (OSError, SourceError):
        return False


def same_inputs(dataset: Dataset, listing: Listing) -> bool:
    """Whether `dataset` was made from exactly these files with these bytes."""
    table = dataset.table("inputs")
    names = table["input"].to_pylist()
    if not {file.name for file in listing.files} <= set(names):
        return False
    sizes, digests = table["size"].to_pylist(), table["xxh3"].to_pylist()
    return same_files(
        (FileRead(name=n, size=s, xxh3=x) for n, s, x in zip(names, sizes, digests, strict=True)), listing.roots
    )
