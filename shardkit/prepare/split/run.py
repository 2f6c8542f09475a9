"""`shardkit split`: one dataset in, the same rows out in shards of their split, in streaming order.

read keys and ties -> components -> assignment -> ledger -> order -> units -> commit
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from shardkit.engine import Progress, silent
from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.prepare.dedup.inputs import Inputs
from shardkit.prepare.result import example_counts
from shardkit.prepare.split import earlier, write, write_sequences
from shardkit.prepare.split.assign import check_not_empty
from shardkit.prepare.split.config import SplitConfig, SplitResult
from shardkit.prepare.split.declared import by_field
from shardkit.prepare.split.evidence import guard
from shardkit.prepare.split.groups import join
from shardkit.prepare.split.ledger import Ledger, read_ledger
from shardkit.prepare.split.near import NearRules, rules_for
from shardkit.prepare.split.plan import Plan
from shardkit.prepare.split.rows import Rows, read_rows, with_near
from shardkit.prepare.split.sequences import SequencePlan, Sequences, examples_of, read_sequences
from shardkit.prepare.split.ties import NOBODY
from shardkit.prepare.split.times import UNKNOWN
from shardkit.store.dataset import Dataset
from shardkit.store.memory import give_back
from shardkit.store.output import Output
from shardkit.store.sequences import is_tokenized, sequence_recipe

_ROUNDS = 8
"""Rows that are left out change what is compared in crowds, which may leave others out: two rounds are what is needed."""


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
        recipe={
            **config.recipe(given.rules, old.id if old else None, [parent.id for parent in given.parents]),
            # Whoever reads sequences looks for it here.
            **(sequence_recipe(given.dataset.recipe) if is_tokenized(given.dataset) else {}),
        },
        inputs=[dataset.id for dataset in given.datasets],
        protected=_places([*given.datasets, given.examples]),
        overwrite=config.overwrite,
    ) as output:
        done = output.unchanged
        if done is None:
            plan = _plan(given, on_progress)
            try:
                plan.write(output, on_progress)
            finally:
                write.forget()
                write_sequences.forget()
                give_back()
            done = output.commit(plan.seal(given.ledger))
            return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=False)
        return _result(config, done, done.manifest.counts, done.manifest.report, unchanged=True)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Given:
    """What is opened, and the config completed by it."""

    config: SplitConfig
    dataset: Dataset
    examples: Dataset
    """Whose rows are split: the same, or what a tokenized dataset was made from."""
    old: Dataset | None
    before: dict[str, Any] | None
    """The recipe of the older split."""
    parents: tuple[Dataset, ...]
    ledger: Ledger
    rules: NearRules

    @property
    def datasets(self) -> list[Dataset]:
        return [self.dataset, *([self.old] if self.old else []), *self.parents]


def _open(config: SplitConfig) -> _Given:
    """Open what the config names, and complete the config by it.

    Raises:
        ConfigError: where a dataset is none that can be split, or followed.
    """
    dataset = Dataset.open(config.input, base=config.bases)
    if dataset.is_split and dataset.stage != "split":
        raise ConfigError(
            f"the input is split already ({', '.join(dataset.splits)})",
            where=str(config.input),
            hint="name the dataset that was split",
        )
    old = None if config.like is None else Dataset.open(config.like, base=config.bases)
    before = None if old is None else _recipe_of(old)
    parents = tuple(Dataset.open(path, base=config.bases) for path in config.parents)
    examples = dataset
    if is_tokenized(dataset):
        examples = examples_of(dataset, parents)
        parents = tuple(parent for parent in parents if parent.id not in dataset.manifest.inputs)
        if config.shards != "arrow":
            raise ConfigError(
                f"sequences are never in {config.shards} shards", where=str(dataset.path), hint="leave --shards out"
            )
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
        examples=examples,
        old=old,
        before=before,
        parents=parents,
        ledger=read_ledger(old, config.names),
        rules=rules_for(examples, before, edges=config.edges, preset=config.preset),
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


def _plan(given: _Given, on_progress: Progress) -> Plan:
    config = given.config
    sequences = read_sequences(given.dataset, given.examples) if is_tokenized(given.dataset) else None
    rows, inputs = read_rows(given.examples, given.old, given.parents, config, on_progress)
    _check_keys(rows, config)
    _check_times(rows, config)
    _check_parents(rows, config)
    give_back()
    absent = np.zeros(rows.num_own, np.bool_)
    plan = _placed(rows, inputs, absent, sequences, given, on_progress)
    for _ in range(_ROUNDS):
        left_out = absent | (plan.assignment.left > 0)
        if given.old is None or given.rules.text is None or np.array_equal(left_out, absent):
            break
        # Where these rows are not there, an audit compares others of a crowd.
        absent = left_out
        plan = _placed(rows, inputs, absent, sequences, given, on_progress)
    if not config.allow_empty:
        sizes = dict(zip(plan.names, map(len, plan.orders), strict=True))
        check_not_empty(sizes, config.shares, plan.groups)
    give_back()
    return plan


def _placed(  # noqa: PLR0917 - what was read, and what it is placed by
    rows: Rows,
    inputs: Inputs,
    absent: npt.NDArray[np.bool_],
    sequences: Sequences | None,
    given: _Given,
    on_progress: Progress,
) -> Plan:
    """Tie the rows, join them to groups and place these.

    Args:
        absent: [num_own] rows that are known to be left out.
    """
    config = given.config
    rows = with_near(rows, inputs, given.rules, absent=absent, workers=config.workers, on_progress=on_progress)
    rows = _with_removed_before(rows, given.examples, given, on_progress)
    if sequences is not None:
        rows = sequences.weigh(rows)
    groups = join(rows, frequent_limit=config.frequent_asset_limit)
    guard(groups, share=config.max_group_share)
    if sequences is None:
        return Plan(config, given.dataset, groups, given.ledger)
    return SequencePlan(config, sequences, groups, given.ledger)


def _with_removed_before(rows: Rows, dataset: Dataset, given: _Given, on_progress: Progress) -> Rows:
    """The rows with what ties them through duplicates that were removed before pictures were made smaller.

    Raises:
        SourceError: where the dataset before that is not at hand.
    """
    config = given.config
    try:
        before = earlier.shrunk(dataset)
    except IntegrityError as error:
        # Where no row was changed, what is not at hand may be any stage: nothing here was made smaller.
        unchanged = rows.examples["parent_id"].null_count == rows.num_own
        if config.on_missing_parent == "own" or unchanged:
            return rows
        raise SourceError(
            f"the input was shrunk after a dedup, whose removed duplicates tie what is here, and {error.what}",
            where=str(dataset.path),
            hint="say where it is with --base DIR, or use --on-missing-parent own to split without these ties",
        ) from error
    own = rows.joined[: rows.num_own].copy()
    for one in before:
        rules = rules_for(one, given.before, edges=config.edges, preset=config.preset)
        there, inputs = read_rows(one, None, (), config, on_progress)
        nobody = np.zeros(there.num_own, np.bool_)
        there = with_near(there, inputs, rules, absent=nobody, workers=config.workers, on_progress=on_progress)
        there = _with_removed_before(there, one, given, on_progress)
        groups = join(there, frequent_limit=config.frequent_asset_limit)
        found = earlier.followed(dataset, one, groups.of_own)
        own = np.where(found < 0, own, found + own.max(initial=-1) + 1)
    return replace(rows, joined=np.concatenate([own, rows.joined[rows.num_own :]]))


def _check_keys(rows: Rows, config: SplitConfig) -> None:
    """Refuse rows without the declared key, where they must have it.

    Raises:
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
    """Refuse rows without a time, where they must have it.

    Raises:
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
    """Refuse rows whose parents are nowhere.

    Raises:
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
        counts=example_counts(counts),
        report=report,
    )
