"""The changed rows of a dedup in shards of its own: a view of its inputs, and these besides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.digest import xxh3
from shardkit.engine import Progress, map_ordered
from shardkit.prepare.dedup.changes import Change, Changes, Work, changed, cuts, texts_only
from shardkit.prepare.dedup.inputs import Inputs, Positions, Slice, checked_slice
from shardkit.prepare.dedup.keys import words
from shardkit.prepare.dedup.signatures import Signed
from shardkit.prepare.selection import Rewritten
from shardkit.records import Example
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt
from shardkit.store.schema import TABLES
from shardkit.store.units import UnitWriter
from shardkit.text.privacy import has_email, has_phone

UNIT_BYTES, _UNIT_ROWS = 256_000_000, 10_000
"""Payload of a unit, and its rows at most."""
_PLACE = ("input", "position", "has_email", "has_phone")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Job:
    writer: UnitWriter
    work: Work
    places: pa.Table
    """[n] input, position and marks of the rows, in the order of their slices."""
    origins: pa.Table
    """The same for the rows that captions come from."""


def rewrite(
    output: Output, inputs: Inputs, signed: Signed, changes: Changes, *, shard_size: int, recipe: str, workers: int,
    on_progress: Progress,
) -> Rewritten:  # fmt: skip
    """Write every changed row, split by split; units of which a killed run left receipts are not written again.

    Args:
        signed: its `bytes` are those of the rows as they were.
        recipe: what derived the rows, for their provenance.

    Raises:
        IntegrityError: where a shard is damaged.
        OutputError: where the output cannot be written.
    """
    units = list(_units(inputs, signed, changes))
    todo = [unit for unit in units if unit.name not in output.receipts]
    places = _Places.of(inputs, np.union1d(changes.positions, changes.wanted.pairs.removed))
    jobs = (_job(output, inputs, changes, places, unit, shard_size=shard_size) for unit in todo)
    for done, receipt in enumerate(map_ordered(_write, jobs, workers=workers), 1):
        output.receipts[receipt.unit] = receipt
        on_progress(len(units) - len(todo) + done, len(units), "writing changed rows")
    positions: list[Positions] = []
    ids: list[str] = []
    shards: list[int] = []
    rows: list[int] = []
    first = 0
    for unit in units:
        receipt = output.receipts[unit.name]
        positions += [piece.positions for piece in inputs.slices(unit.rows)]
        ids += receipt.notes["ids"]
        for shard in receipt.shards:
            shards += [first] * shard.rows
            rows += range(shard.rows)
            first += 1
    at = np.concatenate([np.empty(0, np.int64), *positions])
    order = np.argsort(at)
    return Rewritten(
        positions=at[order],
        ids=words(ids, 2)[order],
        shards=np.array(shards, np.int32)[order],
        rows=np.array(rows, np.int32)[order],
        recipe=recipe,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Unit:
    index: int
    name: str
    split: str
    rows: Positions
    """Ascending."""


def _units(inputs: Inputs, signed: Signed, changes: Changes) -> Iterator[_Unit]:
    of_split = inputs.split_of()[changes.positions]
    sizes = signed.bytes[changes.positions] + UNIT_BYTES // _UNIT_ROWS
    for place, split in enumerate(inputs.splits):
        own = np.flatnonzero(of_split == place)
        for index, piece in enumerate(cuts(sizes[own], UNIT_BYTES)):
            yield _Unit(index=index, name=f"{split}-{index:05d}", split=split, rows=changes.positions[own[piece]])


def _job(
    output: Output, inputs: Inputs, changes: Changes, places: _Places, unit: _Unit, *, shard_size: int
) -> _Job:  # fmt: skip
    work = changes.wanted.of(inputs, unit.rows)
    return _Job(
        writer=output.unit(unit.index, unit.name, shards="arrow", shard_size=shard_size, split=unit.split),
        work=work,
        places=places.at(work.pieces),
        origins=places.at(work.removed),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Places:
    """What tables/examples of the inputs say of rows that are read."""

    positions: Positions
    """[n] ascending"""
    table: pa.Table
    """[n] input, position and marks."""

    @classmethod
    def of(cls, inputs: Inputs, positions: Positions) -> _Places:
        """Read them from the tables.

        Args:
            positions: ascending.
        """
        schema = TABLES["examples"].empty_table().select(list(_PLACE)).schema
        parts = [schema.empty_table()]
        borders = np.searchsorted(positions, inputs.starts)
        for number, dataset in enumerate(inputs.datasets):
            own = positions[borders[number] : borders[number + 1]] - inputs.starts[number]
            if len(own):
                parts.append(dataset.table("examples", list(_PLACE)).take(pa.array(own)).cast(schema))
        return cls(positions=positions, table=pa.concat_tables(parts))

    def at(self, pieces: tuple[Slice, ...]) -> pa.Table:
        """Those of the rows of some slices, in their order."""
        wanted = np.concatenate([np.empty(0, np.int64), *(piece.positions for piece in pieces)])
        return self.table.take(pa.array(np.searchsorted(self.positions, wanted)))


def _write(job: _Job) -> Receipt:
    """The rows of a unit, read with all checks; run by a worker. The receipt says that they are on disk."""
    ids: list[str] = []
    removed = (position for piece in job.work.removed for position in piece.positions.tolist())
    origin = dict(zip(removed, job.origins.to_pylist(), strict=True))
    ids_of: dict[str, dict[str, Any]] = {}

    def read(piece: Slice) -> Iterator[Example]:
        for position, example in zip(piece.positions.tolist(), checked_slice(piece), strict=True):
            if position in origin:
                ids_of.setdefault(example.example_id, {"source": example.source, **origin[position]})
            yield example

    with job.writer as unit:
        for change, place in zip(changed(job.work, read), job.places.to_pylist(), strict=True):
            after = change.after
            unit.add(
                after,
                input=place["input"],
                position=place["position"],
                parent_id=change.before.example_id,
                marks=_marks(after, place),
            )
            unit.append("lines", line_rows(change, after.example_id))
            unit.append("moved", [
                {
                    "example_id": after.example_id,
                    "parent_id": change.before.example_id,
                    "from_id": caption.example_id,
                    "text": caption.text,
                    **{name: ids_of[caption.example_id][name] for name in ("source", "input", "position")},
                }
                for caption in change.captions
            ])  # fmt: skip
            ids.append(after.example_id)
        return unit.finish(notes={"ids": ids})


def _marks(example: Example, before: dict[str, Any]) -> dict[str, bool | None]:
    """What is found in the texts as they are now, where somebody had looked."""
    texts = [segment.text for segment in example.segments if segment.text]
    return {
        "has_email": None if before["has_email"] is None else any(map(has_email, texts)),
        "has_phone": None if before["has_phone"] is None else any(map(has_phone, texts)),
    }


def line_rows(change: Change, example_id: str | None) -> list[dict[str, Any]]:
    """Rows of tables/lines: what went from one document."""
    return [
        {
            "example_id": example_id,
            "parent_id": change.before.example_id,
            "site": change.site,
            "paragraph": xxh3(line.form.encode()),
            "segment": line.segment,
            "line": line.number,
            "text": line.text,
        }
        for line in change.lines
    ]


def emptied_lines(inputs: Inputs, changes: Changes, workers: int) -> Iterator[pa.Table]:
    """Rows of tables/lines of documents that had no other."""
    yield TABLES["lines"].empty_table()
    pieces = inputs.slices(changes.emptied)
    jobs = (changes.wanted.of(inputs, piece.positions) for piece in pieces)
    for rows in map_ordered(_lines_of, jobs, workers=workers):
        yield pa.Table.from_pylist(rows, schema=TABLES["lines"])


def _lines_of(work: Work) -> list[dict[str, Any]]:
    return [row for change in changed(work, texts_only) for row in line_rows(change, None)]
