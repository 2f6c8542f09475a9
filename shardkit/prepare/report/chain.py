"""The accounts of a dataset from its raw rows on: every stage back to ingest, and that no row was lost between.

raw rows = rows of the dataset + everything that any stage left out
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardkit.errors import IntegrityError
from shardkit.store.dataset import Dataset
from shardkit.store.tables import EXCLUSIONS

_REFERENCES = {"split": 1}
"""Stage -> how many of its inputs hand rows over, where the rest is only looked at (the older split of --like)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """One stage of the road."""

    stage: str
    dataset_id: str
    where: str
    """The path or URL of its dataset."""
    read: int
    kept: int
    excluded: Mapping[str, int]
    """Rows by reason."""
    times: int
    """How often its rows go into the dataset that is asked for: more than once where they came by several ways."""
    missing: Mapping[str, int]
    """Inputs that are not where they were -> rows that came from them; all of it stands at the first where there are
    several."""

    def to_json(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "id": self.dataset_id,
            "dataset": self.where,
            "read": self.read,
            "kept": self.kept,
            "excluded": sum(self.excluded.values()),
            "excluded_by_reason": dict(sorted(self.excluded.items())),
            "times": self.times,
            "inputs_not_found": sorted(self.missing),
        }


def chain(dataset: Dataset) -> list[Account]:
    """The accounts of `dataset` and of every stage before it, the newest first.

    Raises:
        IntegrityError: where a stage did not read what the one before kept, or its tables are not what its counts say.
    """
    inputs: dict[str, list[Dataset]] = {}
    missing: dict[str, list[str]] = {}
    known = {dataset.id: dataset}
    order: list[str] = []

    def visit(one: Dataset) -> None:
        inputs[one.id], missing[one.id] = [], []
        for dataset_id in _handed_over(one):
            if dataset_id not in known:
                found = one.find(dataset_id)
                if found is None:  # moved away or deleted: said in the accounts, and everything after it is counted
                    missing[one.id].append(dataset_id)
                    continue
                known[dataset_id] = found
                visit(found)
            inputs[one.id].append(known[dataset_id])
        order.append(one.id)

    visit(dataset)
    times = Counter({dataset.id: 1})
    accounts = []
    for dataset_id in reversed(order):
        one = known[dataset_id]
        for before in inputs[dataset_id]:
            times[before.id] += times[dataset_id]
        accounts.append(_account(one, inputs[dataset_id], missing[dataset_id], times[dataset_id]))
    return accounts


def balance(accounts: Sequence[Account]) -> dict[str, Any]:
    """Raw rows against what became of them, as JSON values.

    Returns:
        raw_rows (of the inputs of ingest), rows_of_missing_inputs, final_rows, excluded (by stage and reason),
        num_excluded, complete (whether every stage back to ingest was found), stages.

    Raises:
        IntegrityError: where the two sides differ.
    """
    raw = sum(account.times * account.read for account in accounts if account.stage == "ingest")
    unknown = sum(account.times * sum(account.missing.values()) for account in accounts)
    excluded: dict[str, Counter[str]] = {}
    for account in reversed(accounts):
        for reason, count in account.excluded.items():
            excluded.setdefault(account.stage, Counter())[reason] += account.times * count
    num_excluded = sum(sum(reasons.values()) for reasons in excluded.values())
    final = accounts[0].kept
    if raw + unknown != final + num_excluded:
        raise IntegrityError(
            f"rows are lost: {raw + unknown} came in, {final} are here and {num_excluded} were left out",
            where=accounts[0].where,
            hint="run `shardkit verify` on each dataset of the road",
        )
    return {
        "raw_rows": raw,
        "rows_of_missing_inputs": unknown,
        "final_rows": final,
        "num_excluded": num_excluded,
        "excluded": {stage: dict(sorted(reasons.items())) for stage, reasons in excluded.items() if reasons},
        "complete": not any(account.missing for account in accounts),
        "stages": [account.to_json() for account in accounts],
    }


def _handed_over(dataset: Dataset) -> Iterator[str]:
    """Ids of the datasets whose rows it read; none for ingest, whose inputs are raw files."""
    if dataset.stage != "ingest":
        inputs = dataset.manifest.inputs
        yield from dict.fromkeys(inputs[: _REFERENCES.get(dataset.stage, len(inputs))])


def _account(one: Dataset, inputs: Sequence[Dataset], missing: Sequence[str], times: int) -> Account:
    counts = one.manifest.counts
    known = sum(before.manifest.counts["kept"] for before in inputs)
    rest = counts["read"] - known
    if one.stage != "ingest" and (rest < 0 or (rest and not missing)):
        raise IntegrityError(
            f"the stage read {counts['read']} rows, its inputs kept {known}",
            where=one.place,
            hint="run `shardkit verify` on it and on its inputs",
        )
    for name, stated in (("tables/examples.parquet", counts["kept"]), (EXCLUSIONS, counts["excluded"])):
        rows = next((entry.rows for entry in one.manifest.tables if entry.path == name), None)
        if rows != stated:
            raise IntegrityError(
                f"{name} has {'no' if rows is None else rows} rows, the counts say {stated}",
                where=one.place,
                hint="run `shardkit verify` on it, or build it again",
            )
    return Account(
        stage=one.stage,
        dataset_id=one.id,
        where=one.place,
        read=counts["read"],
        kept=counts["kept"],
        excluded=dict(counts["excluded_by_reason"]),
        times=times,
        missing={dataset_id: rest if place == 0 else 0 for place, dataset_id in enumerate(missing)},
    )
