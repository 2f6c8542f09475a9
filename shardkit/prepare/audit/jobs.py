"""Which rows of which shards are audited, and what tables/examples says of their origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.prepare.audit.config import AuditConfig
from shardkit.prepare.audit.sides import Indices, Job
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.split.declared import by_path
from shardkit.store.dataset import Dataset
from shardkit.store.shard import ShardRef

JOB_ROWS = 16_384
"""Small rows fill a shard with hundreds of thousands; one shard must still keep every worker busy."""


class Jobs:
    """The work of an audit, a shard or part of one at a time; made when it is asked for, so that little is held."""

    def __init__(self, config: AuditConfig, dataset: Dataset, splits: Sequence[Dataset], *, with_looks: bool) -> None:
        self._config = config
        self._dataset = dataset
        self._with_looks = with_looks
        self._key_of = {split.id: split.recipe.get("group_by") for split in splits}
        self._leave_column = {
            split.id for split in splits if split.recipe.get("group_by") is not None and split.has_table("lengths")
        }
        """Splits by another key than ingest's that wrote sequences alone: the examples' shards still have ingest's."""
        self._parent_field_of = {split.id: split.recipe.get("parent_field") for split in splits}
        self.keys = tuple(dict.fromkeys([*self._key_of.values(), config.group_by]))
        """Declared keys that are looked at; None is the group column, which always is."""
        columns = ["shard_index", "row", "parent_id"]
        if any(by_path(key) for key in self.keys):
            columns += ["input", "position"]
        table = dataset.table("examples", columns)
        shards = as_int32(table["shard_index"])
        order = np.lexsort((as_int32(table["row"]), shards))
        self._table = table.drop_columns(["shard_index"]).take(pa.array(order))
        self._borders = np.searchsorted(shards[order], np.arange(len(dataset.shards) + 1))

    def __len__(self) -> int:
        sizes = [len(self.rows_of(shard)) for shard in range(len(self._dataset.shards))]
        return sum(max(1, -(-size // JOB_ROWS)) for size in sizes) + len(self._dataset.sequence_shards)

    def examples(self) -> Iterator[Job]:
        """The rows of each shard of examples, in order."""
        for shard in range(len(self._dataset.shards)):
            rows = self.rows_of(shard)
            for start in range(0, max(len(rows), 1), JOB_ROWS):
                yield self.of(shard, rows[start : start + JOB_ROWS], first=start == 0)

    def sequences(self) -> Iterator[Job]:
        """One a shard of sequences."""
        for number, shard in enumerate(self._dataset.sequence_shards):
            yield self._job(number, np.arange(shard.num_rows, dtype=np.int32), self._table.slice(0, 0), shard)

    def of(self, shard: int, rows: npt.NDArray[np.int32], *, first: bool = False) -> Job:
        """Some rows of a shard of examples."""
        begin, end = self._borders[shard : shard + 2]
        if len(rows):
            known = as_int32(self._table["row"].slice(begin, end - begin))
            begin, end = begin + np.searchsorted(known, [rows[0], rows[-1] + 1])
        # A slice would be sent to a worker with all that it is a slice of.
        places = self._table.take(pa.array(np.arange(begin, end)))
        return self._job(shard, rows, places, self._dataset.shards[shard], first=first)

    def rows_of(self, shard: int) -> npt.NDArray[np.int32]:
        """All rows of the dataset's own shards, whatever a table selects; of other datasets' shards the selected ones."""
        ref = self._dataset.shards[shard]
        if ref.holder is self._dataset:
            return np.arange(ref.num_rows, dtype=np.int32)
        begin, end = self._borders[shard : shard + 2]
        return np.unique(as_int32(self._table["row"].slice(begin, end - begin)))

    def places(self, positions: Indices) -> Iterator[tuple[int, int]]:
        """(shard, row) of rows, by their number among all that are audited."""
        shards = np.searchsorted(self._starts, positions, side="right") - 1
        for shard, place in zip(shards.tolist(), (positions - self._starts[shards]).tolist(), strict=True):
            yield shard, int(self.rows_of(shard)[place])

    @cached_property
    def _starts(self) -> Indices:
        return np.cumsum([0, *(len(self.rows_of(shard)) for shard in range(len(self._dataset.shards)))])

    def _job(
        self, shard: int, rows: npt.NDArray[np.int32], places: pa.Table, ref: ShardRef, *, first: bool = True
    ) -> Job:
        # A dataset with shards of its own follows the split that it was made from.
        split = ref.holder.id if ref.holder.id in self._key_of else next(iter(self._key_of), "")
        return Job(
            dataset=self._config.dataset,
            bases=self._config.bases,
            shard=shard,
            rows=rows,
            first=first,
            group_by=self._key_of.get(split),
            with_column=split not in self._leave_column,
            asked=self._config.group_by,
            parent_field=self._parent_field_of.get(split),
            places=places,
            with_looks=self._with_looks,
        )
