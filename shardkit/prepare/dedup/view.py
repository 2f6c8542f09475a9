"""The output: shards of the inputs by reference, a selection of their rows, and the tables that go with it.

Rows that are changed lie in shards of the output, behind those; the tables call them by their new ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardkit.engine import map_ordered
from shardkit.prepare.dedup import MATCHERS
from shardkit.prepare.dedup.candidates import Candidates
from shardkit.prepare.dedup.changes import Changes
from shardkit.prepare.dedup.clusters import Decision
from shardkit.prepare.dedup.edges import RowEdges
from shardkit.prepare.dedup.inputs import Inputs, Slice, facts_of
from shardkit.prepare.dedup.keys import Keys, hex_id
from shardkit.prepare.dedup.levels import LEVELS, ONLY_BOILERPLATE, TEXT, reason
from shardkit.prepare.dedup.matchers import NEAR
from shardkit.prepare.dedup.near import Found
from shardkit.prepare.dedup.signatures import Signed
from shardkit.prepare.selection import Rewritten, Selection
from shardkit.records import Exclusion
from shardkit.store.schema import TABLES

SAME_IMAGES = "image"
"""Level of an edge between two examples that both stay: the same images, other text. A split keeps them together."""
_PART_ROWS = 65_536
_ALL_REPEATED = "every line of its text is one that its site repeats, and there is no image"


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    inputs: Inputs
    signed: Signed
    candidates: Candidates
    decision: Decision
    found: Found
    thresholds: npt.NDArray[np.float64]
    """By place in LEVELS."""
    kept: npt.NDArray[np.bool_]
    """[N] of all rows; those of references are not kept, they are not here."""
    changes: Changes
    pairs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """Candidates with the same images and other text, as (centre, other)."""
    retention: pa.Table
    """What other thresholds would keep."""
    paragraphs: pa.Table
    """Boilerplate of the sites."""
    workers: int
    rewritten: Rewritten = field(default_factory=Rewritten.none)
    """Rows that lie in shards of the output: the tables call them by their new ids."""

    @cached_property
    def selection(self) -> Selection:
        """The kept rows."""
        size = self.signed.bytes.copy()
        size[self.changes.positions] += self.changes.grown
        counted = replace(self.signed, bytes=size)
        return Selection(inputs=self.inputs, counted=counted, kept=self.kept, rewritten=self.rewritten)

    @cached_property
    def ids(self) -> Keys:
        """[K, 2] the ids of candidates in the output, or those that they had."""
        ids: Keys = self.candidates.ids.copy()
        at, there = self._written(self.candidates.positions)
        ids[there] = self.rewritten.ids[at[there]]
        return ids

    def _written(self, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """[n] place in `rewritten` of each row, and whether it is there."""
        known = self.rewritten.positions
        if not len(known):
            return np.zeros(len(positions), np.int64), np.zeros(len(positions), np.bool_)
        at = np.minimum(np.searchsorted(known, positions), len(known) - 1)
        return at, known[at] == positions

    # ------------------------------------------------------------------ tables
    def edges(self) -> Iterator[pa.Table]:
        """Removed rows with their keepers, then pairs that both stay and belong together."""
        yield TABLES["edges"].empty_table()
        decision, found = self.decision, self.found
        removed = decision.removed
        near = removed[decision.via[removed] >= 0]
        for start in range(0, len(near), _PART_ROWS):
            gone = near[start : start + _PART_ROWS]
            via = found.edges.take(decision.via[gone])
            # The level of a row that equals one that went is its own; what is near is what the other two share.
            yield self._edges(decision.level[gone], via, decision.keeper[gone], gone)
        level_of = np.full(self.inputs.num_rows, -1, np.int8)
        equal = removed[decision.via[removed] < 0]
        level_of[self.candidates.positions[equal]] = decision.level[equal]
        pieces = self.inputs.slices(np.sort(self.candidates.positions[equal]))
        jobs = ((piece, [LEVELS[k] for k in level_of[piece.positions]]) for piece in pieces)
        for piece, levels, evidence in map_ordered(_evidence_of, jobs, workers=self.workers):
            at = self._places(piece.positions)
            yield self._table(levels, np.ones(len(at)), decision.keeper[at], at, evidence)
        centres, others = self.pairs
        for start in range(0, len(centres), _PART_ROWS):
            here = slice(start, start + _PART_ROWS)
            size = len(centres[here])
            evidence = ["same images, other text"] * size
            yield self._table([SAME_IMAGES] * size, np.ones(size), centres[here], others[here], evidence)
        for edges, name in ((self.ties, None), (self.found.tied, SAME_IMAGES)):
            both = edges.take(self._both_stay(edges))
            for part in self._parts_of(both):
                yield self._edges(part.level, part, self._places(part.one), self._places(part.two), name=name)

    def near(self) -> Iterator[pa.Table]:
        """Scored pairs that removed nothing: under the threshold, both kept for another reason, or for review."""
        yield TABLES["near"].empty_table()
        used = np.zeros(len(self.found.edges), np.bool_)
        used[self.decision.via[self.decision.via >= 0]] = True
        for edges, outcome in ((self.found.edges.take(~used), None), (self.found.review, "review")):
            for part in self._parts_of(edges.take(self._concern_new(edges))):
                enough = part.score >= self.thresholds[part.level]
                outcomes = [outcome or ("kept" if high else "below") for high in enough]
                columns = {
                    "level": [LEVELS[k] for k in part.level],
                    "score": part.score,
                    "example_id": self._ids(self._places(part.one)),
                    "other_id": self._ids(self._places(part.two)),
                    "outcome": outcomes,
                    "evidence": _near_evidence(part),
                }
                yield pa.table(columns, schema=TABLES["near"])

    def _parts_of(self, edges: RowEdges) -> Iterator[RowEdges]:
        for start in range(0, len(edges), _PART_ROWS):
            yield edges.take(np.arange(start, min(start + _PART_ROWS, len(edges))))

    def _both_stay(self, edges: RowEdges) -> npt.NDArray[np.bool_]:
        stays = self.kept.copy()
        stays[self.inputs.num_new :] = True
        both: npt.NDArray[np.bool_] = self._concern_new(edges) & stays[edges.one] & stays[edges.two]
        return both & (edges.score >= self.thresholds[edges.level])

    def _concern_new(self, edges: RowEdges) -> npt.NDArray[np.bool_]:
        """[E] whether one of the two at least is no row of a reference."""
        new: npt.NDArray[np.bool_] = np.minimum(edges.one, edges.two) < self.inputs.num_new
        return new

    @property
    def ties(self) -> RowEdges:
        """Near pairs of which neither may go."""
        edges = self.found.edges
        return edges.take(np.flatnonzero(edges.level == TEXT))

    def _places(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.candidates.positions, positions)

    def _ids(self, places: npt.NDArray[np.int64]) -> list[str]:
        return [hex_id(pair) for pair in self.ids[places]]

    def _edges(
        self,
        levels: npt.NDArray[np.int8],
        via: RowEdges,
        kept: npt.NDArray[np.int64],
        other: npt.NDArray[np.int64],
        *,
        name: str | None = None,
    ) -> pa.Table:
        names = [name or LEVELS[level] for level in levels]
        return self._table(names, via.score, kept, other, _near_evidence(via))

    def _table(
        self,
        levels: list[str],
        score: npt.NDArray[np.float64],
        kept: npt.NDArray[np.int64],
        other: npt.NDArray[np.int64],
        evidence: list[str],
    ) -> pa.Table:
        columns = {
            "level": levels,
            "score": score,
            "kept_id": self._ids(kept),
            "removed_id": self._ids(other),
            "evidence": evidence,
        }
        return pa.table(columns, schema=TABLES["edges"])

    @cached_property
    def _keepers(self) -> npt.NDArray[np.int64]:
        """Candidates that others go for, ascending."""
        return np.unique(self.decision.keeper[self.decision.removed])

    @property
    def num_clusters(self) -> int:
        return len(self._keepers)

    def clusters(self) -> Iterator[pa.Table]:
        """Keepers with the rows removed for them; clusters are numbered in the order of their keepers.

        A keeper of a reference dataset is not named here: its shards are none of the output's.
        """
        yield TABLES["clusters"].empty_table()
        removed, keepers = self.decision.removed, self._keepers
        members = np.concatenate([keepers, removed])
        number = np.searchsorted(keepers, np.concatenate([keepers, self.decision.keeper[removed]]))
        first, num_shards = np.array(self.selection.first_shard), len(self.selection.shards)
        order = np.lexsort((members, np.concatenate([np.zeros(len(keepers)), np.ones(len(removed))]), number))
        order = order[self.candidates.positions[members[order]] < self.inputs.num_new]
        for start in range(0, len(order), _PART_ROWS):
            part = order[start : start + _PART_ROWS]
            at = members[part]
            positions = self.candidates.positions[at]
            dataset = np.searchsorted(self.inputs.starts, positions, side="right") - 1
            shards = self.inputs.shards[positions] + first[dataset]
            rows = self.inputs.rows[positions]
            written, there = self._written(positions)
            shards[there] = num_shards + self.rewritten.shards[written[there]]
            rows[there] = self.rewritten.rows[written[there]]
            columns = {
                "cluster": number[part].astype(np.int32),
                "example_id": self._ids(at),
                "source": [self.signed.names[k] for k in self.signed.sources[positions]],
                "shard_index": shards.astype(np.int32),
                "row": rows,
                "kept": self.kept[positions],
            }
            yield pa.table(columns, schema=TABLES["clusters"])

    # ------------------------------------------------------------------ exclusions
    def exclusions(self) -> Iterator[Exclusion]:
        """Removed rows in the order of the inputs."""
        stayed = ~np.isin(self.candidates.positions, self.changes.emptied)
        for rows, table in self.selection.removed(["input", "position"]):
            at = np.searchsorted(self.candidates.positions, rows)
            empty = np.isin(rows, self.changes.emptied)
            for index, nothing, input_, position in zip(
                at, empty, table["input"].to_pylist(), table["position"].to_pylist(), strict=True
            ):
                if nothing:
                    yield Exclusion(input=input_, position=position, reason=ONLY_BOILERPLATE, detail=_ALL_REPEATED)
                    continue
                level = LEVELS[self.decision.level[index]]
                near = bool(self.decision.via[index] >= 0)
                keeper = self.decision.keeper[index]
                kept = hex_id(self.ids[keeper])
                stays = "which is kept" if stayed[keeper] else "which went because all its lines are repeated ones"
                yield Exclusion(
                    input=input_,
                    position=position,
                    reason=reason(level, near=near),
                    detail=f"at level {level} it {'is near' if near else 'equals'} the example {kept}, {stays}",
                )


def _evidence_of(job: tuple[Slice, list[str]]) -> tuple[Slice, list[str], list[str]]:
    """What was found equal, for each row of a slice; run by a worker."""
    piece, levels = job
    return piece, levels, [MATCHERS[level].evidence(f) for level, f in zip(levels, facts_of(piece), strict=True)]


def _near_evidence(edges: RowEdges) -> list[str]:
    rows = zip(edges.level.tolist(), edges.score.tolist(), edges.detail.tolist(), strict=True)
    return [NEAR[LEVELS[level]].evidence(score, detail) for level, score, detail in rows]
