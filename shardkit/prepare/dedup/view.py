"""The output: shards of the inputs by reference, a selection of their rows, and the tables that go with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.engine import map_ordered
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.candidates import Candidates
from shardkit.prepare.dedup.clusters import Decision
from shardkit.prepare.dedup.inputs import Inputs, Slice, facts_of
from shardkit.prepare.dedup.keys import asset_keys, hex_id, leading
from shardkit.prepare.dedup.signatures import Signed
from shardkit.records import Exclusion
from shardkit.records.manifest import ShardEntry
from shardkit.store.schema import PROVENANCE, TABLES

SAME_IMAGES = "image"
"""Level of an edge between two examples that both stay: the same images, other text. A split keeps them together."""
_PART_ROWS = 65_536


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    inputs: Inputs
    signed: Signed
    candidates: Candidates
    decision: Decision
    levels: tuple[str, ...]
    kept: npt.NDArray[np.bool_]
    """[N] of all rows."""
    pairs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """Candidates with the same images and other text, as (centre, other)."""
    workers: int

    # ------------------------------------------------------------------ shards
    @property
    def shards(self) -> tuple[ShardEntry, ...]:
        """All shards of the inputs, also those without a kept row: a split looks at removed rows."""
        refs = [shard for dataset in self.inputs.datasets for shard in dataset.shards]
        return tuple(replace(shard.entry, dataset=shard.holder.id) for shard in refs)

    @property
    def locations(self) -> dict[str, Path]:
        return {s.holder.id: s.holder.path for dataset in self.inputs.datasets for s in dataset.shards}

    @property
    def _first_shard(self) -> list[int]:
        """Of each dataset: the place of its first shard in the output's list."""
        sizes = [len(dataset.shards) for dataset in self.inputs.datasets]
        return [sum(sizes[:number]) for number in range(len(sizes))]

    def _own(self, number: int) -> slice:
        return slice(self.inputs.starts[number], self.inputs.starts[number + 1])

    # ------------------------------------------------------------------ tables
    def examples(self) -> Iterator[pa.Table]:
        schema = TABLES["examples"]
        place = schema.get_field_index("shard_index")
        yield schema.empty_table()
        for number, dataset in enumerate(self.inputs.datasets):
            table = dataset.table("examples").filter(pa.array(self.kept[self._own(number)]))
            shards = pa.array(np.asarray(table["shard_index"].to_numpy(), np.int32) + self._first_shard[number])
            yield table.set_column(place, schema.field(place), shards.cast(pa.int32())).cast(schema)

    def assets(self) -> Iterator[pa.Table]:
        kept = self._kept_assets()
        yield TABLES["assets"].empty_table()
        for dataset in self.inputs.datasets:
            table = dataset.table("assets").cast(TABLES["assets"])
            yield table.filter(pa.array(np.isin(asset_keys(table), kept)))

    def provenance(self) -> Iterator[pa.Table]:
        """Rows of kept examples, and further origins of assets that stay."""
        kept = self._kept_assets()
        yield PROVENANCE.empty_table()
        for number, dataset in enumerate(self.inputs.datasets):
            ids = dataset.table("examples", ["example_id"]).filter(pa.array(self.kept[self._own(number)]))
            table = dataset.table("provenance").cast(PROVENANCE)
            images = asset_keys(table)
            stays = np.isin(leading(table["example_id"]), leading(ids["example_id"]))
            stays |= (images != 0) & np.isin(images, kept)
            yield table.filter(pa.array(stays))

    def _kept_assets(self) -> npt.NDArray[np.uint64]:
        return np.unique(self.signed.image_keys[self.kept[self.signed.image_rows]])

    def edges(self) -> Iterator[pa.Table]:
        """Removed rows with their keepers, then pairs that both stay."""
        yield TABLES["edges"].empty_table()
        removed = self.decision.removed
        level_of = np.full(self.inputs.num_rows, -1, np.int8)
        level_of[self.candidates.positions[removed]] = self.decision.level[removed]
        pieces = self.inputs.slices(np.sort(self.candidates.positions[removed]))
        jobs = ((piece, [self.levels[k] for k in level_of[piece.positions]]) for piece in pieces)
        for piece, levels, evidence in map_ordered(_evidence_of, jobs, workers=self.workers):
            at = np.searchsorted(self.candidates.positions, piece.positions)
            yield self._edges(levels, self.decision.keeper[at], at, evidence)
        centres, others = self.pairs
        for start in range(0, len(centres), _PART_ROWS):
            part = slice(start, start + _PART_ROWS)
            evidence = ["same images, other text"] * len(centres[part])
            yield self._edges([SAME_IMAGES] * len(evidence), centres[part], others[part], evidence)

    def _edges(
        self, levels: list[str], kept: npt.NDArray[np.int64], other: npt.NDArray[np.int64], evidence: list[str]
    ) -> pa.Table:
        columns = {
            "level": levels,
            "score": [1.0] * len(levels),
            "kept_id": [hex_id(pair) for pair in self.candidates.ids[kept]],
            "removed_id": [hex_id(pair) for pair in self.candidates.ids[other]],
            "evidence": evidence,
        }
        return pa.table(columns, schema=TABLES["edges"])

    def clusters(self) -> Iterator[pa.Table]:
        """Keepers with the rows removed for them; clusters are numbered in the order of their keepers."""
        yield TABLES["clusters"].empty_table()
        removed = self.decision.removed
        keepers = np.unique(self.decision.keeper[removed])
        members = np.concatenate([keepers, removed])
        number = np.searchsorted(keepers, np.concatenate([keepers, self.decision.keeper[removed]]))
        order = np.lexsort((members, np.concatenate([np.zeros(len(keepers)), np.ones(len(removed))]), number))
        for start in range(0, len(order), _PART_ROWS):
            part = order[start : start + _PART_ROWS]
            at = members[part]
            positions = self.candidates.positions[at]
            dataset = np.searchsorted(self.inputs.starts, positions, side="right") - 1
            columns = {
                "cluster": number[part].astype(np.int32),
                "example_id": [hex_id(pair) for pair in self.candidates.ids[at]],
                "source": [self.signed.names[k] for k in self.signed.sources[positions]],
                "shard_index": (self.inputs.shards[positions] + np.array(self._first_shard)[dataset]).astype(np.int32),
                "row": self.inputs.rows[positions],
                "kept": self.decision.level[at] < 0,
            }
            yield pa.table(columns, schema=TABLES["clusters"])

    # ------------------------------------------------------------------ exclusions
    def exclusions(self) -> Iterator[Exclusion]:
        """Removed rows in the order of the inputs."""
        for number, dataset in enumerate(self.inputs.datasets):
            own = self._own(number)
            table = dataset.table("examples", ["input", "position"])
            gone = np.flatnonzero(~self.kept[own])
            table = table.take(pa.array(gone))
            at = np.searchsorted(self.candidates.positions, gone + own.start)
            for index, input_, position in zip(
                at, table["input"].to_pylist(), table["position"].to_pylist(), strict=True
            ):
                level = self.levels[self.decision.level[index]]
                kept = hex_id(self.candidates.ids[self.decision.keeper[index]])
                yield Exclusion(
                    input=input_,
                    position=position,
                    reason=MATCHERS[level].REASON,
                    detail=f"at level {level} it equals the example {kept}, which is kept",
                )

    # ------------------------------------------------------------------ totals
    def totals(self) -> dict[str, dict[str, dict[str, int]]]:
        """by_split and by_source of the kept rows."""
        of_split = self.inputs.split_of()
        return {
            "by_split": {s: self._sums(self.kept & (of_split == k)) for k, s in enumerate(self.inputs.splits)},
            "by_source": {
                s: self._sums(self.kept & (self.signed.sources == k)) for k, s in enumerate(self.signed.names)
            },
        }

    def _sums(self, rows: npt.NDArray[np.bool_]) -> dict[str, int]:
        signed = self.signed
        return {
            "bytes": int(signed.bytes[rows].sum()),
            "examples": int(rows.sum()),
            "images": int(signed.images[rows].sum()),
            "pixels": int(signed.pixels[rows].sum()),
        }


def _evidence_of(job: tuple[Slice, list[str]]) -> tuple[Slice, list[str], list[str]]:
    """What was found equal, for each row of a slice; run by a worker."""
    piece, levels = job
    return piece, levels, [MATCHERS[level].evidence(f) for level, f in zip(levels, facts_of(piece), strict=True)]
