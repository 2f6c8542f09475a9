"""Which other datasets still hold what was forgotten: every folder below some places is looked into."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import IntegrityError, SourceError
from shardkit.prepare.dedup.keys import leading
from shardkit.prepare.lineage.forget.proof import Forgotten
from shardkit.store.dataset import Dataset
from shardkit.store.manifest_file import MANIFEST
from shardkit.store.output import CACHE
from shardkit.store.receipts import WORK

_INSIDE = {"shards", "tables", "provenance", "tokenizer", CACHE}
"""Folders of a dataset in which no other one lies."""


def holders(folders: Sequence[Path], forgotten: Forgotten) -> Iterator[dict[str, Any]]:
    """Datasets below `folders` that show a forgotten picture or hold a forgotten example, by path.

    Yields:
        path, id, stage, assets and examples (how many of the forgotten ones), bytes_in (the datasets whose shards hold
        the rows: a view has none of its own). What cannot be looked into comes with `problem` instead of figures: a
        damaged dataset, or a run that was not finished.

    Raises:
        SourceError: where a folder is none.
    """
    for folder in folders:
        if not folder.is_dir():
            raise SourceError("no such folder", where=str(folder), hint="name a folder with --also")
    seen: set[Path] = set()
    for path in (path for folder in folders for path in _datasets(folder)):
        if path.resolve() not in seen:
            seen.add(path.resolve())
            held = _held(path, forgotten)
            if held is not None:
                yield held


def _datasets(folder: Path) -> Iterator[Path]:
    """Folders with a manifest, or with the work of a run that was not finished."""
    for place, names, files in os.walk(folder):
        if MANIFEST in files or WORK in names:
            yield Path(place)
            names[:] = [name for name in names if name not in _INSIDE]
        names[:] = sorted(name for name in names if name != WORK)


def _held(path: Path, forgotten: Forgotten) -> dict[str, Any] | None:
    if not (path / MANIFEST).exists():
        return {"path": str(path), "problem": "a run was not finished here; what it holds is not known"}
    try:
        dataset = Dataset.open(path)
        assets = dataset.table("assets", ["asset_id", "stored_xxh3"])
        shown = np.isin(leading(assets["asset_id"]), forgotten.assets)
        equal = pc.is_in(assets["stored_xxh3"], pa.array(sorted(forgotten.stored), pa.string()))
        examples = np.isin(leading(dataset.table("examples", ["example_id"])["example_id"]), forgotten.examples)
        num_assets, num_examples = int((shown | equal.to_numpy()).sum()), int(examples.sum())
        if not num_assets and not num_examples:
            return None
        where = sorted({os.path.normpath(shard.holder.path) for shard in dataset.shards})
    except (IntegrityError, SourceError) as error:
        return {"path": str(path), "problem": str(error)}
    return {
        "path": str(path),
        "id": dataset.id,
        "stage": dataset.stage,
        "assets": num_assets,
        "examples": num_examples,
        "bytes_in": where,
    }
