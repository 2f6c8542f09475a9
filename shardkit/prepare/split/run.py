"""`shardkit split`: one dataset in, the same rows out in shards of their split, in streaming order.

read keys and ties -> components -> assignment -> ledger -> order -> units -> commit
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.components import Indices
from shardkit.prepare.split.assign import Assignment, assign, check_not_empty
from shardkit.prepare.split.config import SplitConfig, SplitResult
from shardkit.prepare.split.declared import by_field
from shardkit.prepare.split.groups import Groups, guard, join
from shardkit.prepare.split.ledger import Ledger, read_ledger
from shardkit.prepare.split.order import cut_units, stream_order
from shardkit.prepare.split.reasons import CONFLICT
from shardkit.prepare.split.report import describe_split
from shardkit.prepare.split.rows import Rows, read_rows
from shardkit.prepare.split.tables import assets, boilerplate_table, groups_table, provenance
from shardkit.prepare.split.write import Job, forget, write_unit
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output


def run(config: SplitConfig, on_progress: Progress = silent) -> SplitResult:
    """Split the input and commit the result; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting, or a split that would be empty.
        SourceError: where groups are missing or run together.
        IntegrityError: where the input is damaged.
        OutputError: where the output cannot be written.
    """
    dataset = Dataset.open(config.input, base=config.bases)
    if dataset.splits != ("all",) and dataset.stage != "split":
        raise ConfigError(
            f"the input is split already ({', '.join(dataset.splits)})",
            where=str(config.input),
            hint="name the dataset that was split",
        )
    if dataset.sequence_shards:
        raise ConfigError(
            "the input holds sequences",
            where=str(config.input),
            hint="split the dataset that they were made from, then run `shardkit tokenize` again",
        )
    old = None if config.like is None else Dataset.open(config.like, base=config.bases)
    ledger = read_ledger(old, tuple(config.shares))
    if config.dry_run:
        plan = _plan(config, dataset, old, ledger, on_progress)
        return _result(config, None, plan.tally.to_json(), plan.report, unchanged=False)
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    with Output(
        config.output,
        stage="split",
        recipe=config.recipe(old.id if old else None),
        inputs=[dataset.id, *([old.id] if old else [])],
        protected=_places(dataset, old),
        overwrite=config.overwrite,
    ) as output:
        done = output.unchanged
        if done is None:
            plan = _plan(config, dataset, old, ledger, on_progress)
            try:
                plan.write(output, on_progress)
            finally:
                forget()
            done = output.commit(plan.seal(ledger))
            return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=False)
        return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=True)


class _Plan:
    """Everything that is decided before the first row is written."""

    def __init__(self, config: SplitConfig, dataset: Dataset, groups: Groups, assignment: Assignment) -> None:
        self.config = config
        self.dataset = dataset
        self.groups = groups
        self.rows = groups.rows
        self.assignment = assignment
        self.names = tuple(config.shares)
        self.split_of = assignment.of_component[groups.of_own]
        self.excluded = np.zeros(self.rows.num_own, np.bool_)
        self.excluded[assignment.excluded] = True
        written_to = np.where(self.excluded, -1, self.split_of)
        self.orders = [
            stream_order(groups, np.flatnonzero(written_to == place), salt=config.salt)
            for place in range(len(self.names))
        ]
        self.boilerplate = boilerplate_table(groups)
        self.report = describe_split(
            groups, assignment, config.shares, written_to, self.boilerplate, group_by=config.group_by
        )
        self.tally = Tally(read=self.rows.num_own, kept=sum(map(len, self.orders)))
        if len(assignment.excluded):
            self.tally.excluded = Counter({CONFLICT: len(assignment.excluded)})

    # ------------------------------------------------------------------ units
    def write(self, output: Output, on_progress: Progress) -> None:
        """Write every unit that has no receipt yet."""
        jobs = list(self._units())
        todo = [job for job in jobs if job[1] not in output.receipts]
        made = (self._job(output, *job) for job in todo)
        on_progress(len(jobs) - len(todo), len(jobs), "writing")
        for done, receipt in enumerate(map_ordered(write_unit, made, workers=self.config.workers), 1):
            output.receipts[receipt.unit] = receipt
            on_progress(len(jobs) - len(todo) + done, len(jobs), "writing")

    def _units(self) -> Iterator[tuple[int, str, str, Indices]]:
        """(index, name, split, rows) of every unit."""
        for split, order in zip(self.names, self.orders, strict=True):
            pieces = cut_units(self.rows.sizes[order], self.groups.of_own[order], unit_size=self.config.unit_size)
            for index, piece in enumerate(pieces):
                yield index, f"{split}-{index:05d}", split, order[piece]

    def _job(self, output: Output, index: int, name: str, split: str, rows: Indices) -> Job:
        columns = ["input", "position", "parent_id", "has_email", "has_phone", "shard_index", "row"]
        table = self.rows.examples.select(columns).take(pa.array(rows))
        codes = self.rows.declared[rows]
        declared = pa.array(self.rows.names, pa.string()).take(pa.array(codes, mask=codes < 0))
        return Job(
            writer=output.unit(index, name, shards=self.config.shards, shard_size=self.config.shard_size, split=split),
            dataset=self.dataset.path,
            dataset_id=self.dataset.id,
            bases=self.config.bases,
            shards=np.asarray(table["shard_index"].to_numpy(), np.int32),
            rows=np.asarray(table["row"].to_numpy(), np.int32),
            examples=table.drop_columns(["shard_index", "row"]).append_column("declared", declared),
            regroup=self.config.group_by is not None,
        )

    # ------------------------------------------------------------------ commit
    def seal(self, ledger: Ledger) -> Sealed:
        written = np.concatenate(self.orders)
        return Sealed(
            tally=self.tally,
            splits=self.names,
            tables={
                "assets": assets(self.dataset, self.excluded),
                "groups": [groups_table(self.groups, written)],
                "ledger": [ledger.grown(self.rows, self.names, self.split_of)],
                "boilerplate": [self.boilerplate],
            },
            provenance=provenance(self.dataset, self.groups, self.excluded),
            exclusions=self._exclusions(),
            report=self.report,
        )

    def _exclusions(self) -> Iterator[Exclusion]:
        left = self.rows.examples.select(["input", "position"]).take(pa.array(self.assignment.excluded))
        for row, facts in zip(self.assignment.excluded.tolist(), left.to_pylist(), strict=True):
            before = self.names[self.assignment.placed[row]]
            now = self.names[self.split_of[row]]
            yield Exclusion(
                **facts,
                reason=CONFLICT,
                detail=f"it was placed in {before}, and new data ties it to {now}; rows are never moved",
            )


def _plan(config: SplitConfig, dataset: Dataset, old: Dataset | None, ledger: Ledger, on_progress: Progress) -> _Plan:
    rows = read_rows(dataset, old, config, on_progress)
    _check_keys(rows, config)
    groups = join(rows, frequent_limit=config.frequent_asset_limit)
    guard(groups, share=config.max_group_share)
    plan = _Plan(config, dataset, groups, assign(groups, ledger, config.shares, salt=config.salt))
    if not config.allow_empty:
        sizes = dict(zip(plan.names, map(len, plan.orders), strict=True))
        check_not_empty(sizes, config.shares, groups)
    return plan


def _check_keys(rows: Rows, config: SplitConfig) -> None:
    """Raises:
    ConfigError: where no row has the field.
    SourceError: where rows have no key and must have one.
    """
    missing = int((rows.declared[: rows.num_own] < 0).sum())
    if by_field(config.group_by) and missing == rows.num_own > 0:
        raise ConfigError(
            f"no example has a metadata field {config.group_by!r}",
            where=str(config.input),
            hint="name another with --group-by; `shardkit head` shows the fields; the name of the source is @source",
        )
    if config.on_missing_group == "fail" and missing:
        raise SourceError(
            f"{missing} of {rows.num_own} examples have no group",
            where=str(config.input),
            hint="use --on-missing-group own to make each a group of its own, or another --group-by",
        )


def _places(dataset: Dataset, old: Dataset | None) -> list[Any]:
    """Folders that the output must keep away from."""
    opened = [dataset, *([old] if old else [])]
    return sorted({each.path for each in opened} | {shard.holder.path for each in opened for shard in each.shards})


def _result(
    config: SplitConfig,
    dataset: Dataset | None,
    counts: Mapping[str, Any],
    report: Mapping[str, Any],
    *,
    unchanged: bool,
) -> SplitResult:
    return SplitResult(
        path=config.output if dataset else None,
        dataset_id=dataset.id if dataset else None,
        unchanged=unchanged,
        counts={name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")},
        report=report,
    )
