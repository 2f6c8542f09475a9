"""Saved plans: how an epoch is cut into blocks, beside a dataset. Never needed, never part of it.

DATASET/.cache/plan-<digest>.parquet    epoch, block, first_pack, num_packs, draw
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardkit.digest import canonical_json
from shardkit.store.files import DurableFile, make_folder, output_errors, sync_folder
from shardkit.store.output import CACHE

SCHEMA = pa.schema(
    [
        ("epoch", pa.int32()),
        ("block", pa.int32()),
        ("first_pack", pa.int64()),
        ("num_packs", pa.int32()),
        ("draw", pa.string()),
    ]
)
_ABOUT = b"shardkit.plan"


def plan_path(dataset: Path, digest: str) -> Path:
    return dataset / CACHE / f"plan-{digest}.parquet"


def save_plan(dataset: Path, digest: str, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> Path:
    """Save the blocks of a plan's epochs, in place of what was saved of it before.

    Args:
        about: settings, mixture, what the plan is of, and the steps of each epoch.
    """
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)
    table = table.replace_schema_metadata({_ABOUT: canonical_json({**about, "plan": digest})})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = plan_path(dataset, digest)
    make_folder(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with output_errors(path):
        temporary.unlink(missing_ok=True)
        with DurableFile(temporary) as file:
            file.write(sink.getvalue().to_pybytes())
        # Whoever saves the same plan writes the same: the last one may replace the others.
        os.replace(temporary, path)
    sync_folder(path.parent)
    return path


def read_plan(dataset: Path, digest: str) -> dict[str, Any] | None:
    """What is saved of a plan beside its blocks; None where nothing readable is."""
    try:
        metadata = pq.read_schema(plan_path(dataset, digest)).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return None
    about: dict[str, Any] = orjson.loads(metadata.get(_ABOUT, b"{}"))
    return about if about.get("plan") == digest else None


def read_blocks(dataset: Path, digest: str, epoch: int) -> list[dict[str, Any]]:
    """The saved blocks of an epoch, in order; none where it was not saved. `draw` comes as the list that it is."""
    with pq.ParquetFile(plan_path(dataset, digest)) as file:
        table = file.read()
    rows = table.filter(pc.equal(table["epoch"], epoch)).to_pylist()
    return [{**row, "draw": orjson.loads(row["draw"])} for row in sorted(rows, key=lambda row: int(row["block"]))]
