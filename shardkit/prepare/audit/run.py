"""`shardkit audit`: proves from the shards, not from the tables, that no two splits share anything.

    each shard, whole file against the manifest -> values from its bytes -> those on two sides -> what a digest denies

It trusts the manifest's list of shards and nothing else; tables say only where a raw row came from (--group-by @path) and
which images and texts the split declared boilerplate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import IntegrityError, LeakError, ShardkitError
from shardkit.prepare.audit.leaks import Found, evidence, on_two_sides, without
from shardkit.prepare.audit.removal import unexplained
from shardkit.prepare.audit.sides import KINDS, Job, Side, examine, forget, value_bits
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, words
from shardkit.store.dataset import MANIFEST, Dataset

_FAULTS_SHOWN = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    dataset: Path
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditResult:
    path: Path
    splits: tuple[str, ...]
    """One name, or none: the dataset was never split, and there is nothing to audit."""
    examples: int
    leaks: Mapping[str, int]
    """Kind -> number of values on two sides."""
    permitted: Mapping[str, int]
    """Kind -> number of boilerplate values on two sides."""
    evidence: tuple[Mapping[str, Any], ...]
    faults: tuple[str, ...]
    """Where rows and their bytes differ."""
    identity: str
    """What is wrong with the manifest itself; empty where it is whole."""

    @property
    def error(self) -> ShardkitError | None:
        """LeakError where something leaks, else IntegrityError where a digest does not fit, else None."""
        if any(self.leaks.values()):
            counts = ", ".join(f"{count} of kind {kind}" for kind, count in self.leaks.items() if count)
            first = self.evidence[0]
            places = " and ".join(f"{split} ({side['rows'][0]})" for split, side in first["sides"].items())
            return LeakError(
                f"values stand on two sides of the split: {counts}; first, {first['kind']} {first['value']} in {places}",
                where=str(self.path),
                hint="run `shardkit split` on the whole set; do not change or add shards one by one",
            )
        if self.faults:
            more = f" and {len(self.faults) - 1} more" if len(self.faults) > 1 else ""
            return IntegrityError(
                f"{self.faults[0]}{more}", where=str(self.path), hint="build the dataset again from its inputs"
            )
        if self.identity:
            return IntegrityError(
                self.identity,
                where=str(self.path / MANIFEST),
                hint="restore the file, or build the dataset again from its inputs",
            )
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": str(self.path),
            "ok": self.error is None,
            "audited": len(self.splits) > 1,
            "splits": list(self.splits),
            "examples": self.examples,
            "leaks": dict(self.leaks),
            "permitted": dict(self.permitted),
            "evidence": [dict(item) for item in self.evidence],
            "faults": list(self.faults[:_FAULTS_SHOWN]),
            "num_faults": len(self.faults),
            "identity": self.identity,
        }


def run(config: AuditConfig, on_progress: Progress = silent) -> AuditResult:
    """Audit a dataset that was split, or a view of one.

    Raises:
        IntegrityError: where a file is not the one that the manifest names.
        SourceError: where no dataset is.
    """
    dataset = Dataset.open(config.dataset, base=config.bases, check_id=False)
    if len(dataset.splits) < 2:
        return AuditResult(
            path=config.dataset, splits=dataset.splits, examples=0, leaks={}, permitted={}, evidence=(), faults=(),
            identity=_identity(dataset),
        )  # fmt: skip
    sides: list[Side] = []
    jobs = list(_jobs(dataset, config))
    try:
        for done, side in enumerate(map_ordered(examine, jobs, workers=config.workers), 1):
            sides.append(side)
            on_progress(done, len(jobs), "reading")
    finally:
        forget()
    names = {split: number for number, split in enumerate(dataset.splits)}
    side_of = np.array([names[shard.split] for shard in dataset.shards] or [0], np.int64)
    permitted = _permitted(dataset)
    changed = {key: where for side in sides for key, where in side.changed}
    leaks: dict[str, int] = {}
    allowed: dict[str, int] = {}
    shown: list[dict[str, Any]] = []
    for kind in KINDS:
        found = on_two_sides(sides, kind, side_of)
        if kind == "parent":
            found = _only_parents(dataset, found)
        rest = without(found, permitted.get(kind, np.empty((0, 2), np.uint64)))
        leaks[kind], allowed[kind] = rest.num_values, found.num_values - rest.num_values
        shown += evidence(dataset, {job.shard: job for job in jobs}, kind, rest)
    return AuditResult(
        path=config.dataset,
        splits=dataset.splits,
        examples=sum(side.num_rows for side in sides),
        leaks=leaks,
        permitted=allowed,
        evidence=tuple(shown),
        faults=(*(fault for side in sides for fault in side.faults), *unexplained(dataset, changed)),
        identity=_identity(dataset),
    )


def split_of(dataset: Dataset) -> Dataset | None:
    """The split that the dataset is, or that it is a view of; None where that cannot be told."""
    if dataset.stage == "split":
        return dataset
    holders = {shard.holder.id: shard.holder for shard in dataset.shards}
    return next((holder for holder in holders.values() if holder.stage == "split"), None)


def _jobs(dataset: Dataset, config: AuditConfig) -> Iterator[Job]:
    table = dataset.table("examples", ["shard_index", "row", "input", "position", "parent_id"])
    shards = as_int32(table["shard_index"])
    split = split_of(dataset)
    for shard in dataset.shards:
        own = table.take(pa.array(np.flatnonzero(shards == shard.index))).drop_columns(["shard_index"])
        if shard.holder is not dataset and own.num_rows == 0:
            continue
        yield Job(
            dataset=config.dataset,
            bases=config.bases,
            shard=shard.index,
            # All rows of its own shards, whatever the table selects; of other datasets' shards only the selected ones.
            rows=None if shard.holder is dataset else as_int32(own["row"]),
            group_by=None if split is None else split.recipe["group_by"],
            places=own,
        )


def _permitted(dataset: Dataset) -> dict[str, Keys]:
    """Kind -> values that the split declared boilerplate."""
    split = split_of(dataset)
    if split is None or not split.has_table("boilerplate"):
        return {}
    pairs: dict[str, list[tuple[int, int]]] = {}
    for row in split.table("boilerplate", ["kind", "value"]).to_pylist():
        pairs.setdefault(row["kind"], []).append(value_bits(row["kind"], row["value"]))
    return {kind: np.array(values, np.uint64) for kind, values in pairs.items()}


def _only_parents(dataset: Dataset, found: Found) -> Found:
    """An id on two sides is a leak of this kind where it is somebody's parent."""
    column = pc.drop_null(dataset.table("examples", ["parent_id"])["parent_id"])
    parents = {tuple(pair) for pair in words(column.to_pylist(), 2).tolist()}
    keep = np.array([tuple(pair) in parents for pair in found.values.tolist()], np.bool_)
    return Found(values=found.values[keep], shards=found.shards[keep], rows=found.rows[keep])


def _identity(dataset: Dataset) -> str:
    """What is wrong with the manifest as a whole."""
    stated, found = dataset.id, dataset.manifest.dataset_id
    if stated != found:
        return f"the manifest gives the dataset id {found}, but says {stated}; it was changed after the commit"
    if dataset.manifest.to_json() != (dataset.path / MANIFEST).read_bytes():
        return "the manifest was changed after the commit"
    return ""
