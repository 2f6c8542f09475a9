"""`shardkit split`: one dataset in, the same rows out in shards of their split, in streaming order.

read keys and ties -> components -> assignment -> ledger -> order -> units -> commit
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.components import Indices
from shardkit.prepare.split.assign import Division, assign, check_not_empty
from shardkit.prepare.split.config import SplitConfig, SplitResult
from shardkit.prepare.split.declared import by_field
from shardkit.prepare.split.evidence import guard
from shardkit.prepare.split.groups import Groups, join
from shardkit.prepare.split.ledger import Ledger, read_ledger
from shardkit.prepare.split.near import NearRules, rules_for
from shardkit.prepare.split.order import cut_units, prefix_of, stream_order
from shardkit.prepare.split.reasons import BRIDGE, CODES, CONFLICT, MISSING_TIME
from shardkit.prepare.split.report import describe_split
from shardkit.prepare.split.rows import Rows, read_rows, with_near
from shardkit.prepare.split.tables import assets, boilerplate_table, groups_table, provenance
from shardkit.prepare.split.ties import NOBODY
from shardkit.prepare.split.times import UNKNOWN
from shardkit.prepare.split.write import Job, forget, write_unit
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output


def run(config: SplitConfig, on_progress: Progress = silent) -> SplitResult:
    """Split the input and commit the result; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting, or a split that would be empty.
        SourceError: where groups, times or parents are missing, or groups run together.
        IntegrityError: where the input is damaged.
        OutputError: where the output cannot be written.
    """
    given = _open(config)
    config = given.config
    if config.dry_run:
        plan = _plan(given, on_progress)
        return _result(config, None, plan.tally.to_json(), plan.report, unchanged=False)
    if config.output is None:
        raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
    old = given.old
    with Output(
        config.output,
        stage="split",
        recipe=config.recipe(given.rules, old.id if old else None, [parent.id for parent in given.parents]),
        inputs=[dataset.id for dataset in given.datasets],
        protected=_places(given.datasets),
        overwrite=config.overwrite,
    ) as output:
        done = output.unchanged
        if done is None:
            plan = _plan(given, on_progress)
            try:
                plan.write(output, on_progress)
            finally:
                forget()
            done = output.commit(plan.seal(given.ledger))
            return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=False)
        return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=True)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Given:
    """What is opened, and the config completed by it."""

    config: SplitConfig
    dataset: Dataset
    old: Dataset | None
    parents: tuple[Dataset, ...]
    ledger: Ledger
    rules: NearRules

    @property
    def datasets(self) -> list[Dataset]:
        return [self.dataset, *([self.old] if self.old else []), *self.parents]


def _open(config: SplitConfig) -> _Given:
    """Raises:
    ConfigError: where a dataset is none that can be split, or followed.
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
            hint=f"split {_made_from(dataset)}, then run `shardkit tokenize` again; equal examples give equal sequences",
        )
    old = None if config.like is None else Dataset.open(config.like, base=config.bases)
    before = None if old is None else _recipe_of(old)
    parents = tuple(Dataset.open(path, base=config.bases) for path in config.parents)
    for parent in parents:
        if parent.has_table("ledger"):
            raise ConfigError(
                "--parents names a dataset that is split",
                where=str(parent.path),
                hint="name it with --like, so that what was made from its examples goes where they went",
            )
    config = config.completed(before)
    return _Given(
        config=config,
        dataset=dataset,
        old=old,
        parents=parents,
        ledger=read_ledger(old, config.names),
        rules=rules_for(dataset, before, edges=config.edges, preset=config.preset),
    )


def _recipe_of(old: Dataset) -> dict[str, Any]:
    """The recipe of an older split, or of the one that the older dataset selects rows of.

    Raises:
        ConfigError: where there is none.
    """
    splits = [old, *(shard.holder for shard in old.shards)]
    found = next((each for each in splits if each.stage == "split"), None)
    if found is None or not old.has_table("ledger"):
        raise ConfigError(
            f"--like names a dataset made by {old.stage}, which has no ledger",
            where=str(old.path),
            hint="name the output of `shardkit split`",
        )
    return found.recipe


def _made_from(dataset: Dataset) -> str:
    """Where the inputs of a dataset lie, in words."""
    known = dataset.manifest.locations
    places = [os.path.normpath(dataset.path / known[each]) for each in dataset.manifest.inputs if each in known]
    return " and ".join(places) or "the dataset that they were made from"


class _Plan:
    """Everything that is decided before the first row is written."""

    def __init__(self, config: SplitConfig, dataset: Dataset, groups: Groups, ledger: Ledger) -> None:
        self.config = config
        self.dataset = dataset
        self.groups = groups
        self.rows = groups.rows
        self.names = config.names
        division = Division(
            names=config.names, shares=config.shares, cutoffs=config.cutoffs, salt=config.salt or "", exact=config.exact
        )
        self.assignment = assign(groups, ledger, division)
        self.split_of = self.assignment.of_component[groups.of_own]
        written_to = np.where(self.assignment.left > 0, -1, self.split_of)
        self.orders = [
            stream_order(groups, np.flatnonzero(written_to == place), salt=division.salt)
            for place in range(len(self.names))
        ]
        self.pieces = [
            cut_units(self.rows.sizes[order], groups.of_own[order], unit_size=config.unit_size) for order in self.orders
        ]
        self.boilerplate = boilerplate_table(groups)
        self.report = describe_split(
            groups,
            self.assignment,
            division,
            written_to,
            boilerplate=self.boilerplate,
            prefixes=[
                prefix_of(groups, order, pieces, shard_size=config.shard_size)
                for order, pieces in zip(self.orders, self.pieces, strict=True)
            ],
            group_by=config.group_by,
        )
        self.tally = Tally(read=self.rows.num_own, kept=sum(map(len, self.orders)))
        counts = np.bincount(self.assignment.left, minlength=len(CODES)).tolist()
        self.tally.excluded = Counter({code: n for code, n in zip(CODES, counts, strict=True) if code and n})

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
        for split, order, pieces in zip(self.names, self.orders, self.pieces, strict=True):
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
            sizes=self.rows.sizes[rows],
            places=table.drop_columns(["shard_index", "row"]),
            groups=declared if self.config.group_by is not None else None,
        )

    # ------------------------------------------------------------------ commit
    def seal(self, ledger: Ledger) -> Sealed:
        written = np.concatenate(self.orders)
        excluded = self.assignment.left > 0
        return Sealed(
            tally=self.tally,
            splits=self.names,
            tables={
                "assets": assets(self.dataset, excluded),
                "groups": [groups_table(self.groups, written)],
                "ledger": [ledger.grown(self.rows, self.names, self.split_of)],
                "boilerplate": [self.boilerplate],
            },
            provenance=provenance(self.dataset, self.groups, excluded),
            exclusions=self._exclusions(),
            report=self.report,
            locations={self.dataset.id: self.dataset.path},
        )

    def _exclusions(self) -> Iterator[Exclusion]:
        rows = self.assignment.excluded
        left = self.rows.examples.select(["input", "position"]).take(pa.array(rows))
        for row, facts in zip(rows.tolist(), left.to_pylist(), strict=True):
            code = CODES[self.assignment.left[row]]
            yield Exclusion(**facts, reason=str(code), detail=self._detail(row, str(code)))

    def _detail(self, row: int, code: str) -> str:
        if code == CONFLICT:
            before, now = self.names[self.assignment.placed[row]], self.names[self.split_of[row]]
            return f"it was placed in {before}, and new data ties it to {now}; rows are never moved"
        if code == BRIDGE:
            return "it is tied to rows of the older split that are in different splits; wherever it went, it would leak"
        return f"the metadata field {self.config.time_field!r} " + (
            "is missing" if code == MISSING_TIME else "holds no time"
        )


def _plan(given: _Given, on_progress: Progress) -> _Plan:
    config = given.config
    rows, inputs = read_rows(given.dataset, given.old, given.parents, config, on_progress)
    _check_keys(rows, config)
    _check_times(rows, config)
    _check_parents(rows, config)
    rows = with_near(rows, inputs, given.rules, workers=config.workers, on_progress=on_progress)
    groups = join(rows, frequent_limit=config.frequent_asset_limit)
    guard(groups, share=config.max_group_share)
    plan = _Plan(config, given.dataset, groups, given.ledger)
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


def _check_times(rows: Rows, config: SplitConfig) -> None:
    """Raises:
    ConfigError: where no row has the field.
    SourceError: where rows have no time and must have one.
    """
    if config.time_field is None or not rows.num_own:
        return
    missing = int(np.isin(rows.times[: rows.num_own], UNKNOWN).sum())
    if missing == rows.num_own:
        raise ConfigError(
            f"no example has a time in a metadata field {config.time_field!r}",
            where=str(config.input),
            hint="name another with --split-by-time; `shardkit head` shows the fields; times are as in 2021-06-30T12:00:00Z",
        )
    if config.on_missing_time == "fail" and missing:
        raise SourceError(
            f"{missing} of {rows.num_own} examples have no time that can be read",
            where=str(config.input),
            hint="use --on-missing-time exclude to leave them out, counted",
        )


def _check_parents(rows: Rows, config: SplitConfig) -> None:
    """Raises:
    ConfigError: where no row names a parent in the field.
    SourceError: where rows were made from what is nowhere, and nothing else says what they belong to.
    """
    if config.parent_field is not None and rows.num_own and not (rows.parents != NOBODY).any():
        raise ConfigError(
            f"no example names what it was made from in a metadata field {config.parent_field!r}",
            where=str(config.input),
            hint="name another with --parent-field; `shardkit head` shows the fields; it holds example ids",
        )
    if config.on_missing_parent == "fail" and len(rows.orphans):
        first = rows.examples.slice(int(rows.orphans[0]), 1).to_pylist()[0]
        raise SourceError(
            f"{len(rows.orphans)} of {rows.num_own} examples were made from others that are nowhere, so their groups are "
            f"not known; the first is {first['example_id']} ({first['input']}:{first['position']})",
            where=str(config.input),
            hint="name the dataset of their parents with --parents, or its split with --like; or use --on-missing-parent own",
        )


def _places(datasets: Sequence[Dataset]) -> list[Any]:
    """Folders that the output must keep away from."""
    return sorted({each.path for each in datasets} | {shard.holder.path for each in datasets for shard in each.shards})


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
        names=config.names,
        counts={name: counts[name] for name in ("read", "kept", "excluded", "excluded_by_reason")},
        report=report,
    )
