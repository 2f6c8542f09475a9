"""What a worker finds in one shard of sequences: the examples that they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from shardkit.prepare.audit.sides import Collected, Job, Side, opened, value_bits
from shardkit.store.dataset import Dataset
from shardkit.store.whole import open_whole, open_whole_sequences


def examine_sequences(job: Job) -> Side:
    """Read a shard of sequences whole; run by a worker. What a sequence leads to may not stand on another side.

    Raises:
        IntegrityError: where the file, or that of its examples, is not the one that the manifest names.
    """
    dataset = opened(job.dataset, job.bases)
    shard = dataset.sequence_shards[job.shard]
    reader = open_whole_sequences(shard)
    found = Collected(shard=len(dataset.shards) + job.shard)
    table = reader.table(["example_id", "shard", "row"])
    for row, (said, there) in enumerate(_sequences(dataset, dataset.examples_of(shard), table)):
        if there is None:
            found.faults.append(f"{shard.name}:{row}: its example is at no row of the examples' shards")
        elif there != said:
            found.faults.append(
                f"{shard.name}:{row}: the row of its example has the id {there}, the sequence says {said}"
            )
        for parent in {said, there or said}:
            found.values.add(row, {("parent", parent)})
            found.made.append((row, *value_bits("parent", parent)))
    reader.close()
    return found.side()


def _sequences(dataset: Dataset, examples: Sequence[int], table: pa.Table) -> Iterator[tuple[str, str | None]]:
    """Of each sequence the example id that it says, and that of the row to which it leads.

    Args:
        examples: place in the dataset's list of each shard of examples that the sequences count by.
    """
    ids: dict[int, list[str]] = {}
    columns = (table[name].to_pylist() for name in ("example_id", "shard", "row"))
    for said, shard, row in zip(*columns, strict=True):
        if shard not in ids and 0 <= shard < len(examples):
            reader = open_whole(dataset.shards[examples[shard]])
            ids[shard] = reader.columns(["example_id"])["example_id"].to_pylist()
            reader.close()
        known = ids.get(shard, [])
        yield said, known[row] if 0 <= row < len(known) else None
