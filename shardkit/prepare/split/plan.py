"""Everything that a split decides before the first row is written; then the rows, and the tables of the commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.engine import Progress, map_ordered
from shardkit.prepare.components import Indices
from shardkit.prepare.split.assign import Division, Flags, assign
from shardkit.prepare.split.config import SplitConfig
from shardkit.prepare.split.groups import Groups
from shardkit.prepare.split.ledger import Ledger
from shardkit.prepare.split.order import cut_units, prefix_of, stream_order
from shardkit.prepare.split.reasons import BRIDGE, CODES, CONFLICT, MISSING_TIME
from shardkit.prepare.split.report import describe_split
from shardkit.prepare.split.tables import assets, boilerplate_table, groups_table, provenance
from shardkit.prepare.split.write import Job, write_unit
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt


class Plan:
    """Of a dataset of examples."""

    work: Callable[[Any], Receipt] = staticmethod(write_unit)
    """What a worker does with the job of a unit."""

    def __init__(
        self, config: SplitConfig, dataset: Dataset, groups: Groups, ledger: Ledger, *, present: Flags | None = None
    ) -> None:
        """Decide everything.

        Args:
            dataset: the input.
            present: [num_own] rows that are written at all; None for all. The others tie and are placed.
        """
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
        stays = self.assignment.left == 0
        if present is not None:
            stays &= present
            self.assignment = replace(self.assignment, left=np.where(present, self.assignment.left, np.int8(0)))
        self.written_to = np.where(stays, self.split_of, -1)
        self.orders = [
            stream_order(groups, np.flatnonzero(self.written_to == place), salt=division.salt)
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
            self.written_to,
            boilerplate=self.boilerplate,
            prefixes=[
                prefix_of(groups, order, pieces, shard_size=config.shard_size)
                for order, pieces in zip(self.orders, self.pieces, strict=True)
            ],
            group_by=config.group_by,
        )
        self.tally = tally_of(self.written_to, self.assignment.left)

    # ------------------------------------------------------------------ units
    def write(self, output: Output, on_progress: Progress) -> None:
        """Write every unit that has no receipt yet."""
        jobs = list(self._units())
        todo = [job for job in jobs if job[1] not in output.receipts]
        made = (self._job(output, *job) for job in todo)
        on_progress(len(jobs) - len(todo), len(jobs), "writing")
        for done, receipt in enumerate(map_ordered(self.work, made, workers=self.config.workers), 1):
            output.receipts[receipt.unit] = receipt
            on_progress(len(jobs) - len(todo) + done, len(jobs), "writing")

    def _units(self) -> Iterator[tuple[int, str, str, Indices]]:
        """(index, name, split, rows) of every unit."""
        for split, order, pieces in zip(self.names, self.orders, self.pieces, strict=True):
            for index, piece in enumerate(pieces):
                yield index, f"{split}-{index:05d}", split, order[piece]

    def _job(self, output: Output, index: int, name: str, split: str, rows: Indices) -> Any:
        columns = ["input", "position", "parent_id", "has_email", "has_phone", "shard_index", "row"]
        table = self.rows.examples.select(columns).take(pa.array(rows))
        return Job(
            writer=output.unit(index, name, shards=self.config.shards, shard_size=self.config.shard_size, split=split),
            dataset=self.dataset.path,
            dataset_id=self.dataset.id,
            bases=self.config.bases,
            shards=np.asarray(table["shard_index"].to_numpy(), np.int32),
            rows=np.asarray(table["row"].to_numpy(), np.int32),
            sizes=self.rows.sizes[rows],
            places=table.drop_columns(["shard_index", "row"]),
            groups=self.declared(rows) if self.config.group_by is not None else None,
        )

    def declared(self, rows: Indices) -> pa.Array:
        """The declared keys of rows; null where the source declares nothing."""
        codes = self.rows.declared[rows]
        return pa.array(self.rows.names, pa.string()).take(pa.array(codes, mask=codes < 0))

    # ------------------------------------------------------------------ commit
    def seal(self, ledger: Ledger) -> Sealed:
        written = np.concatenate(self.orders)
        ids, excluded = self.rows.ids[: self.rows.num_own], self.assignment.left > 0
        return Sealed(
            tally=self.tally,
            splits=self.names,
            tables={
                "assets": assets(self.dataset, ids, self.written_to >= 0),
                "groups": [groups_table(self.groups, written)],
                "ledger": [ledger.grown(self.rows, self.names, self.split_of)],
                "boilerplate": [self.boilerplate],
            },
            provenance=provenance(self.dataset, self.groups, excluded, self.written_to >= 0),
            exclusions=self.exclusions(self.assignment.excluded, self.rows.examples),
            report=self.report,
            locations={self.dataset.id: self.dataset.path},
        )

    def exclusions(self, rows: Indices, examples: pa.Table, at: Indices | None = None) -> Iterator[Exclusion]:
        """Of rows that are left out.

        Args:
            examples: has their input and position ...
            at: ... in these rows; None where the numbers are the same.
        """
        left = examples.select(["input", "position"]).take(pa.array(rows if at is None else at))
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


def tally_of(written_to: Indices, left: npt.NDArray[np.int8]) -> Tally:
    """Counts of rows: the split that each is written to, -1 for none, and the place in CODES of why it is left out."""
    counts = np.bincount(left, minlength=len(CODES)).tolist()
    excluded = Counter({code: n for code, n in zip(CODES, counts, strict=True) if code and n})
    return Tally(read=len(written_to), kept=int((written_to >= 0).sum()), excluded=excluded)
