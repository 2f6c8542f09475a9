"""The split of a tokenized dataset: each sequence goes where the example goes that it was made from.

    sequence -> example of the tokenized dataset -> row of the dataset that was tokenized -> its split

Groups are those of the dataset that was tokenized, with all that ties its rows, also rows without a sequence. Shards of
sequences are written anew; those of the examples are referred to, once for each split that has rows of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.errors import ConfigError, IntegrityError, SourceError
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.dedup.keys import Keys, leading, look_up, place_keys
from shardkit.prepare.split.config import SplitConfig
from shardkit.prepare.split.groups import Groups
from shardkit.prepare.split.ledger import Ledger
from shardkit.prepare.split.plan import Plan, tally_of
from shardkit.prepare.split.rows import Rows
from shardkit.prepare.split.tables import assets, groups_table, provenance
from shardkit.prepare.split.write_sequences import SequenceJob, write_sequences
from shardkit.records.manifest import ShardEntry
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.schema import TABLES
from shardkit.store.sequences import tokenizer_files
from shardkit.store.shard import ShardRef
from shardkit.store.tables import replace_column

_SLOT_BYTES = 100
"""Of a slot without labels: six numbers of four bytes and the asset's id."""


def examples_of(dataset: Dataset, parents: Sequence[Dataset]) -> Dataset:
    """The dataset of whose rows the split of a tokenized one is decided: what was tokenized, or itself, a view of examples,
    where it was made from several or is split.

    Args:
        parents: where it may lie, too.

    Raises:
        IntegrityError: where it is not at hand.
        ConfigError: where it cannot be known what ties the examples.
    """
    given = {parent.id: parent for parent in parents}
    inputs = dataset.manifest.inputs
    if dataset.stage == "tokenize" and len(inputs) == 1:
        return given[inputs[0]] if inputs[0] in given else dataset.holder(inputs[0])
    if dataset.stage == "tokenize":
        for dataset_id in inputs:
            part = given[dataset_id] if dataset_id in given else dataset.holder(dataset_id)
            if part.has_table("clusters"):
                raise ConfigError(
                    f"it was made from several datasets, and {part.path} left out duplicates, which tie what they resemble",
                    where=str(dataset.path),
                    hint="run `shardkit concat` on those datasets, then `shardkit tokenize` on its output, then split that",
                )
    return dataset


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sequences:
    """E examples with sequences, and their S sequences in the order of shards and rows."""

    dataset: Dataset
    examples: pa.Table
    """[E] tables/examples"""
    files: npt.NDArray[np.int32]
    """[E] number of the file of examples, and ..."""
    refs: tuple[ShardRef, ...]
    """... the file of each number."""
    row_of: Indices
    """[E] row of the dataset whose rows are split."""
    lengths: pa.Table
    """[S] tables/lengths"""
    example_of: Indices
    """[S] index into `examples`."""
    sizes: npt.NDArray[np.int64]
    """[S] payload bytes: ids, objectives, slots."""

    def weigh(self, rows: Rows) -> Rows:
        """The rows with the payload of their sequences; 0 for a row without."""
        sizes = np.zeros(len(rows), np.int64)
        np.add.at(sizes, self.row_of[self.example_of], self.sizes)
        return replace(rows, sizes=sizes)


def read_sequences(dataset: Dataset, examples: Dataset) -> Sequences:
    """Follow every sequence to its example, and that to its row of `examples`.

    Raises:
        IntegrityError: where the dataset is damaged.
        SourceError: where a sequence leads to no row.
    """
    table = dataset.table("examples").cast(TABLES["examples"])
    numbers: dict[tuple[str, str], int] = {}
    for ref in (*dataset.shards, *examples.shards):
        numbers.setdefault((ref.holder.id, ref.name), len(numbers))
    own, there = (
        np.array([numbers[ref.holder.id, ref.name] for ref in one.shards], np.int32) for one in (dataset, examples)
    )
    files = own[as_int32(table["shard_index"])]
    known = examples.table("examples", ["shard_index", "row", "example_id"])
    row_of = _found(
        place_keys(there[as_int32(known["shard_index"])], as_int32(known["row"])),
        place_keys(files, as_int32(table["row"])),
        leading(known["example_id"]),
        leading(table["example_id"]),
    )
    lost = np.flatnonzero(row_of < 0)
    if len(lost):
        raise SourceError(
            f"{len(lost)} of its examples are not in {examples.path}, so their groups are not known; the first is "
            f"{table['example_id'][int(lost[0])].as_py()}",
            where=str(dataset.path),
            hint="say with --base or --parents where the dataset is that was tokenized",
        )
    lengths = dataset.table("lengths")
    order = np.lexsort((as_int32(lengths["row"]), as_int32(lengths["shard"])))
    lengths = lengths.take(pa.array(order))
    example_of, width = _examples_of_sequences(dataset, table, lengths)
    tokens, images = (np.asarray(lengths[name].to_numpy(), np.int64) for name in ("num_tokens", "num_images"))
    refs = {int(own[ref.index]): ref for ref in reversed(dataset.shards)}
    return Sequences(
        dataset=dataset,
        examples=table,
        files=files,
        refs=tuple(refs[number] for number in range(len(refs))),
        row_of=row_of,
        lengths=lengths,
        example_of=example_of,
        sizes=tokens * (width + 1) + images * _SLOT_BYTES,
    )


def _examples_of_sequences(dataset: Dataset, table: pa.Table, lengths: pa.Table) -> tuple[Indices, int]:
    """[S] place of each sequence's example in `table`, tables/examples; and the bytes of a token id."""
    borders = np.searchsorted(as_int32(lengths["shard"]), np.arange(len(dataset.sequence_shards) + 1))
    rows = as_int32(lengths["row"])
    places, ids = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    width = 1
    for shard, (begin, end) in zip(dataset.sequence_shards, pairwise(borders.tolist()), strict=True):
        reader = dataset.sequence_reader(shard)
        found = reader.table(["example_id", "shard", "row"])
        width = reader.schema.field("input_ids").type.value_type.bit_width // 8
        if not np.array_equal(rows[begin:end], np.arange(found.num_rows)):
            raise IntegrityError(
                f"tables/lengths has {end - begin} rows for {shard.name}, which has {found.num_rows}",
                where=str(dataset.path),
                hint="run `shardkit verify` on it, or tokenize its input again",
            )
        stands = np.asarray(dataset.examples_of(shard), np.int32)[as_int32(found["shard"])]
        places.append(place_keys(stands, as_int32(found["row"])))
        ids.append(leading(found["example_id"]))
        reader.close()
    known = place_keys(as_int32(table["shard_index"]), as_int32(table["row"]))
    at = _found(known, np.concatenate(places), leading(table["example_id"]), np.concatenate(ids))
    lost = np.flatnonzero(at < 0)
    if len(lost):
        number = int(np.searchsorted(borders, lost[0], side="right")) - 1
        raise SourceError(
            f"{len(lost)} sequences were made from examples that the dataset does not have; the first is row "
            f"{int(lost[0] - borders[number])} of {dataset.sequence_shards[number].name}",
            where=str(dataset.path),
            hint="run `shardkit verify` on it, or tokenize its input again",
        )
    return at, width


def _found(known: Keys, wanted: Keys, known_ids: Keys, ids: Keys) -> Indices:
    """The first place of each of `wanted` among `known`; -1 where it is not there, or has another id."""
    if not len(known):
        return np.full(len(wanted), -1)
    order = np.argsort(known, kind="stable")
    at = look_up(wanted, known[order], order)
    return np.where((at >= 0) & (known_ids[at] == ids), at, -1)


class SequencePlan(Plan):
    """Of a tokenized dataset: rows are those of the dataset that was tokenized, units hold their sequences."""

    work = staticmethod(write_sequences)

    def __init__(self, config: SplitConfig, sequences: Sequences, groups: Groups, ledger: Ledger) -> None:
        # A unit is one shard.
        config = replace(config, unit_size=min(config.unit_size, config.shard_size))
        present = groups.rows.sizes[: groups.rows.num_own] > 0
        super().__init__(config, sequences.dataset, groups, ledger, present=present)
        self.sequences = sequences
        self.left = self.assignment.left[sequences.row_of]
        self.split = self.written_to[sequences.row_of]
        self.tally = tally_of(self.split, self.left)
        rank = np.full(self.rows.num_own, -1)
        streamed = np.concatenate(self.orders)
        rank[streamed] = np.arange(len(streamed))
        rank = rank[sequences.row_of[sequences.example_of]]
        order = np.argsort(rank, kind="stable")
        self._streamed = order[rank[order] >= 0]
        """Sequences in the order of writing."""
        self._ranks = rank[self._streamed]
        starts = np.cumsum([0, *map(len, self.orders)])
        self._borders = [
            (int(start) + piece.start, int(start) + piece.stop)
            for start, pieces in zip(starts[:-1], self.pieces, strict=True)
            for piece in pieces
        ]
        """Of each unit, in ranks of its rows."""
        self._firsts = np.cumsum([0, *map(len, self.pieces)])
        """Number of the first shard of sequences of each split."""
        # Examples as they stand in the tables, and the shards that they are in.
        place = np.flatnonzero(self.split >= 0)
        by_place = np.lexsort((as_int32(sequences.examples["row"])[place], sequences.files[place], self.split[place]))
        self._written = place[by_place]
        pairs = self.split[self._written].astype(np.int64) * len(sequences.refs) + sequences.files[self._written]
        self._shards, numbers = np.unique(pairs, return_inverse=True)
        self._shard_of = np.full(len(self.split), -1, np.int32)
        self._shard_of[self._written] = numbers

    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """The shards of examples that the output refers to."""
        refs = self.sequences.refs
        found = []
        for split, file in (divmod(pair, len(refs)) for pair in self._shards.tolist()):
            found.append(replace(refs[file].entry, split=self.names[split], dataset=refs[file].holder.id))
        return tuple(found)

    def _job(self, output: Output, index: int, name: str, split: str, rows: Indices) -> SequenceJob:
        sequences = self.sequences
        number = int(self._firsts[self.names.index(split)]) + index
        begin, end = np.searchsorted(self._ranks, self._borders[number])
        own = self._streamed[begin:end]
        examples = sequences.example_of[own]
        fresh = np.zeros(len(own), np.bool_)
        fresh[np.unique(examples, return_index=True)[1]] = True
        declared = self.declared(sequences.row_of[examples]) if self.config.group_by is not None else None
        return SequenceJob(
            writer=output.unit(index, name, shards="sequences", shard_size=0, split=split),
            dataset=self.dataset.path,
            dataset_id=self.dataset.id,
            bases=self.config.bases,
            shard=number,
            split=split,
            lengths=sequences.lengths.take(pa.array(own)),
            sizes=sequences.sizes[own],
            fresh=fresh,
            examples=self._shard_of[examples],
            groups=declared,
        )

    def seal(self, ledger: Ledger) -> Sealed:
        left = np.flatnonzero(self.left)
        ids = self.rows.ids[: self.rows.num_own]
        stays = self.written_to >= 0
        rows = self.sequences.row_of
        return Sealed(
            tally=self.tally,
            splits=self.names,
            shards=self.shards,
            tables={
                "examples": [self._examples()],
                "assets": assets(self.dataset, ids, stays),
                "lengths": [self.sequences.lengths.slice(0, 0)],
                "groups": [groups_table(self.groups, rows[self._written])],
                "ledger": [ledger.grown(self.rows, self.names, self.split_of)],
                "boilerplate": [self.boilerplate],
            },
            provenance=provenance(self.dataset, self.groups, self.assignment.left > 0, stays),
            exclusions=self.exclusions(rows[left], self.sequences.examples, left),
            files=tokenizer_files(self.dataset),
            report=self.report,
            locations={one.id: one.path for one in (self.dataset, *(ref.holder for ref in self.sequences.refs))},
        )

    def _examples(self) -> pa.Table:
        """tables/examples, split by split, in the order of the shards."""
        table = self.sequences.examples.take(pa.array(self._written))
        table = replace_column(table, "shard_index", pa.array(self._shard_of[self._written]))
        if self.config.group_by is None:
            return table
        return replace_column(table, "group", self.declared(self.sequences.row_of[self._written]))
