"""The rows that stay, written anew: the examples of each shard in a unit, then the sequences of each shard.

shard of examples   -> unit -> own shards                   (where each row lies now is known when all are written)
shard of sequences  -> unit -> one shard of its own, whose rows lead to the new places of their examples
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.engine import Progress, map_ordered
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import as_int32, slices
from shardkit.prepare.dedup.keys import Keys
from shardkit.prepare.lineage.forget.config import ForgetConfig
from shardkit.prepare.lineage.forget.decide import Decision
from shardkit.prepare.report.measure import payloads
from shardkit.prepare.split import write_sequences as sequence_units
from shardkit.prepare.split.sequences import Sequences, read_sequences
from shardkit.prepare.split.write import Job, write_unit
from shardkit.prepare.split.write import forget as close_shards
from shardkit.prepare.split.write_sequences import SequenceJob, write_sequences
from shardkit.records.manifest import Totals
from shardkit.store.dataset import Dataset
from shardkit.store.memory import give_back
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt
from shardkit.store.sequences import is_tokenized
from shardkit.store.shard import ShardRef


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Kept:
    """What stays, in the order in which it is written: split by split, shard by shard."""

    dataset: Dataset
    decision: Decision
    order: Indices
    """[K] rows of tables/examples."""
    sequences: Sequences | None
    """Of a tokenized dataset."""
    stays: npt.NDArray[np.bool_]
    """[S] sequences that stay."""

    @classmethod
    def of(cls, dataset: Dataset, decision: Decision) -> Kept:
        place = np.array([dataset.splits.index(shard.split) for shard in dataset.shards] or [0], np.int32)
        shards = as_int32(decision.examples["shard_index"])
        order = np.lexsort((shards, place[shards]))
        sequences = read_sequences(dataset, dataset) if is_tokenized(dataset) else None
        stays = np.empty(0, np.bool_) if sequences is None else decision.kept[sequences.example_of]
        return cls(
            dataset=dataset,
            decision=decision,
            order=order[decision.kept[order]],
            sequences=sequences,
            stays=stays,
        )

    @property
    def gone_sequences(self) -> Keys:
        """First 64 bits of the ids of sequences of which none stays, ascending."""
        if self.sequences is None:
            return np.empty(0, np.uint64)
        keys = np.asarray(self.sequences.lengths["key"].to_numpy(), np.uint64)
        return np.setdiff1d(keys[~self.stays], keys[self.stays])

    def sequence_shards(self) -> Iterator[tuple[ShardRef, Indices]]:
        """The shards of sequences of which any stay, split by split, and these: places in `sequences`."""
        if self.sequences is None:
            return
        at = np.flatnonzero(self.stays)
        shards = as_int32(self.sequences.lengths["shard"])[at]
        for split in self.dataset.splits:
            for shard in self.dataset.sequence_shards:
                if shard.split == split:
                    own = at[np.searchsorted(shards, shard.index) : np.searchsorted(shards, shard.index, side="right")]
                    if len(own):
                        yield shard, own


def write(config: ForgetConfig, kept: Kept, output: Output, on_progress: Progress) -> None:
    """Write every unit that has no receipt yet."""
    try:
        jobs = list(_examples(config, kept, output))
        for done, receipt in enumerate(map_ordered(write_unit, iter(jobs), workers=config.workers), 1):
            output.receipts[receipt.unit] = receipt
            on_progress(done, len(jobs), "writing")
        if kept.sequences is not None:
            todo = list(_sequences(config, kept, kept.sequences, output))
            for done, receipt in enumerate(map_ordered(write_sequences, iter(todo), workers=config.workers), 1):
                output.receipts[receipt.unit] = receipt
                on_progress(done, len(todo), "writing sequences")
    finally:
        close_shards()
        sequence_units.forget()
        give_back()


def _examples(config: ForgetConfig, kept: Kept, output: Output) -> Iterator[Job]:
    """A unit for each shard of the input of which rows stay."""
    dataset, table = kept.dataset, kept.decision.examples
    shards, rows = as_int32(table["shard_index"]), as_int32(table["row"])
    of_order = shards[kept.order]
    todo = [shard for shard in dataset.shards if _name(shard) not in output.receipts]
    wanted = kept.order[np.isin(of_order, [shard.index for shard in todo])]
    sizes = np.zeros(len(rows), np.int64)
    pieces = list(slices(dataset, config.bases, shards[wanted], rows[wanted], wanted))
    for piece, found in zip(pieces, map_ordered(payloads, iter(pieces), workers=config.workers), strict=True):
        sizes[piece.positions] = found
    places = table.select(["input", "position", "parent_id", "has_email", "has_phone"])
    for shard in todo:
        own = kept.order[of_order == shard.index]
        if len(own):
            yield Job(
                writer=output.unit(
                    shard.index, _name(shard), shards=config.shards, shard_size=config.shard_size, split=shard.split
                ),
                dataset=dataset.path,
                dataset_id=dataset.id,
                bases=config.bases,
                shards=shards[own],
                rows=rows[own],
                sizes=sizes[own],
                places=places.take(pa.array(own)),
                groups=None,
            )


def _name(shard: ShardRef) -> str:
    return f"{shard.split}-{shard.index:05d}"


def _sequences(config: ForgetConfig, kept: Kept, sequences: Sequences, output: Output) -> Iterator[SequenceJob]:
    """A unit for each shard of sequences of which any stay."""
    dataset = kept.dataset
    shard_of, row_of = _places(kept, output)
    for number, (shard, own) in enumerate(kept.sequence_shards()):
        name = f"sequences-{_name(shard)}"
        if name in output.receipts:
            continue
        examples = sequences.example_of[own]
        fresh = np.zeros(len(own), np.bool_)
        fresh[np.unique(examples, return_index=True)[1]] = True
        yield SequenceJob(
            writer=output.unit(
                len(dataset.shards) + shard.index, name, shards="sequences", shard_size=0, split=shard.split
            ),
            dataset=dataset.path,
            dataset_id=dataset.id,
            bases=config.bases,
            shard=number,
            split=shard.split,
            lengths=sequences.lengths.take(pa.array(own)),
            sizes=sequences.sizes[own],
            fresh=fresh,
            examples=shard_of[examples],
            rows=row_of[examples],
            groups=None,
        )


def _places(kept: Kept, output: Output) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """[N] each: the shard of the output that holds the example, and the row there; -1 where it went."""
    shards = as_int32(kept.decision.examples["shard_index"])
    shard_of, row_of = np.full(len(shards), -1, np.int32), np.full(len(shards), -1, np.int32)
    first = 0
    for shard in _in_order(kept.dataset):
        receipt = output.receipts.get(_name(shard))
        if receipt is None:
            continue
        sizes = [entry.rows for entry in receipt.shards]
        own = kept.order[shards[kept.order] == shard.index]
        shard_of[own] = np.repeat(np.arange(first, first + len(sizes)), sizes)
        row_of[own] = np.concatenate([np.arange(size) for size in sizes])
        first += len(sizes)
    return shard_of, row_of


def _in_order(dataset: Dataset) -> Iterator[ShardRef]:
    """The shards of examples as the output has what is left of them: split by split."""
    for split in dataset.splits:
        yield from (shard for shard in dataset.shards if shard.split == split)


def totals(kept: Kept, receipts: Iterator[Receipt]) -> dict[str, dict[str, Totals]] | None:
    """by_split and by_source of a tokenized dataset, which are those of its sequences; None for another one."""
    if kept.sequences is None:
        return None
    sums: dict[str, dict[str, Counter[str]]] = {"by_split": {}, "by_source": {}}
    for receipt in receipts:
        entries = [entry for entry in receipt.shards if entry.format == "sequences"]
        for entry in entries:
            sums["by_split"].setdefault(entry.split, Counter()).update(entry.counts)
        for source, counts in receipt.by_source.items() if entries else ():
            sums["by_source"].setdefault(source, Counter()).update(counts)
    return {
        dimension: {name: dict(sorted(row.items())) for name, row in sorted(rows.items())}
        for dimension, rows in sums.items()
    }
