"""`shardkit shrink`: a dataset in, the same examples with smaller pictures out, in shards of its own.

rows of each shard -> units -> chunks -> (workers: decode, resize, encode) -> unit shards and receipt -> tables, manifest
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.digest import fingerprint
from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.media.shrink import encoders
from shardkit.prepare.components import Indices
from shardkit.prepare.dedup.inputs import as_int32
from shardkit.prepare.result import StageResult, stage_result
from shardkit.prepare.shrink.config import ShrinkConfig
from shardkit.prepare.shrink.tables import Renamed
from shardkit.prepare.shrink.work import PLACES, Chunk, Done, Job, chunks, forget, work
from shardkit.records import Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt
from shardkit.store.schema import TABLES
from shardkit.store.units import UnitWriter

COUNTS = "counts"
"""In a receipt: what `work` counted."""


def run(config: ShrinkConfig, on_progress: Progress = silent) -> StageResult:
    """Make pictures smaller and commit the result; or say that it is there already; or only count (dry run).

    Raises:
        ConfigError: for an impossible setting, or an input of sequences.
        SourceError: where a picture does not decode.
        IntegrityError: where the input is damaged.
        OutputError: where the output cannot be written.
    """
    dataset = Dataset.open(config.input, base=config.bases)
    if dataset.has_table("lengths"):
        raise ConfigError(
            "the input holds sequences",
            where=str(config.input),
            hint="name the dataset that they were made from, then run `shardkit tokenize` again",
        )
    plan = _plan(config, dataset)
    forget()
    try:
        if config.dry_run:
            return _dry(plan, on_progress)
        if config.output is None:
            raise ConfigError("there is no output", hint="name one with -o, or use --dry-run")
        with Output(
            config.output,
            stage="shrink",
            recipe=config.recipe(),
            inputs=[dataset.id],
            protected=sorted({dataset.path, *(shard.holder.path for shard in dataset.shards)}),
            overwrite=config.overwrite,
        ) as output:
            if output.unchanged is not None:
                there = output.unchanged
                return stage_result(config.output, there, there.manifest.counts, there.manifest.report, unchanged=True)
            _write(plan, output, on_progress)
            done = output.commit(_seal(plan, output))
            return stage_result(config.output, done, done.manifest.counts, done.manifest.report)
    finally:
        forget()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Unit:
    """The selected rows of one shard."""

    index: int
    shard: int
    split: str
    order: Indices
    """[n] rows of tables/examples, in the order of writing."""

    @property
    def name(self) -> str:
        return f"{self.index:05d}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Plan:
    config: ShrinkConfig
    dataset: Dataset
    examples: pa.Table
    """tables/examples of the input: shard_index, row and PLACES."""
    rows: npt.NDArray[np.int32]
    """[N] row in its shard."""
    units: tuple[_Unit, ...]
    """Split by split."""

    @property
    def job(self) -> Job:
        # Worker processes may stand in another folder, hence absolute paths.
        return Job(
            dataset=self.dataset.path.absolute(),
            dataset_id=self.dataset.id,
            bases=tuple(base.absolute() for base in self.config.bases),
            max_side=self.config.max_side,
            quality=self.config.quality,
        )

    def done(self, units: Sequence[_Unit], on_progress: Progress) -> Iterator[Done]:
        """What becomes of all chunks of some units, in order."""
        total, taken = sum(len(unit.order) for unit in units), 0
        todo = (chunk for unit in units for chunk in self._chunks(unit))
        for done in map_ordered(partial(work, self.job), todo, workers=self.config.workers):
            taken += len(done.rows)
            on_progress(taken, total)
            yield done

    def _chunks(self, unit: _Unit) -> Iterator[Chunk]:
        places = self.examples.select(list(PLACES)).take(pa.array(unit.order))
        return chunks(unit.index, self.dataset.shards[unit.shard], self.rows[unit.order], places)


def _plan(config: ShrinkConfig, dataset: Dataset) -> _Plan:
    table = dataset.table("examples", ["shard_index", "row", *PLACES])
    shards = as_int32(table["shard_index"])
    order = np.argsort(shards, kind="stable")
    borders = np.searchsorted(shards[order], np.arange(len(dataset.shards) + 1))
    place = {split: number for number, split in enumerate(dataset.splits)}
    refs = sorted(
        (ref for ref in dataset.shards if borders[ref.index] < borders[ref.index + 1]), key=lambda ref: place[ref.split]
    )
    units = tuple(
        _Unit(index=index, shard=ref.index, split=ref.split, order=order[borders[ref.index] : borders[ref.index + 1]])
        for index, ref in enumerate(refs)
    )
    return _Plan(config=config, dataset=dataset, examples=table, rows=as_int32(table["row"]), units=units)


def _write(plan: _Plan, output: Output, on_progress: Progress) -> None:
    """Write every unit that has no receipt yet."""
    todo = [unit for unit in plan.units if unit.name not in output.receipts]
    by_index = {unit.index: unit for unit in todo}
    for index, results in groupby(plan.done(todo, on_progress), key=attrgetter("unit")):
        unit = by_index[index]
        with output.unit(
            unit.index, unit.name, shards=plan.config.shards, shard_size=plan.config.shard_size, split=unit.split
        ) as writer:
            _write_unit(results, writer)


def _write_unit(results: Iterator[Done], writer: UnitWriter) -> None:
    counts: Counter[str] = Counter()
    for done in results:
        writer.extend(done.rows)
        writer.append("assets", done.assets)
        writer.append("derived", done.derived)
        counts.update(done.counts)
        writer.tally.add(_tally(done))
    writer.finish(notes={COUNTS: dict(sorted(counts.items()))})


def _tally(done: Done) -> Tally:
    return Tally(read=len(done.rows), kept=len(done.rows), changes=Counter({"images_shrunk": done.counts["shrunk"]}))


def _seal(plan: _Plan, output: Output) -> Sealed:
    receipts = [output.receipts[unit.name] for unit in plan.units]
    tally, counts = Tally(), Counter[str]()
    for receipt in receipts:
        tally.add(receipt.restored_tally())
        counts.update(receipt.notes[COUNTS])
    dataset = plan.dataset
    renamed = Renamed.of(
        _renamed_examples(plan, receipts, output),
        _parts(receipts, output, "derived"),
        recipe=fingerprint(plan.config.recipe()),
    )
    order = np.concatenate([np.empty(0, np.int64), *(unit.order for unit in plan.units)])
    return Sealed(
        tally=tally,
        splits=dataset.splits,
        tables={
            "assets": renamed.kept_assets(dataset),
            "derived": [TABLES["derived"].empty_table()],
            **renamed.carried(dataset, order),
        },
        provenance=renamed.provenance(dataset),
        locations={dataset.id: dataset.path},
        report=_report(counts),
        format_versions={"encoders": encoders()},
    )


def _parts(receipts: Sequence[Receipt], output: Output, name: str) -> pa.Table:
    """What all units have for a table."""
    parts = (receipt.part(output.target, name) for receipt in receipts)
    return pa.concat_tables([TABLES[name].empty_table(), *(part for part in parts if part is not None)])


def _renamed_examples(plan: _Plan, receipts: Sequence[Receipt], output: Output) -> pa.Table:
    """example_id and parent_id of the examples that changed: those whose parent is the row of the input itself."""
    after = _parts(receipts, output, "examples").select(["example_id", "parent_id"])
    order = np.concatenate([np.empty(0, np.int64), *(unit.order for unit in plan.units)])
    before = plan.dataset.table("examples", ["example_id"])["example_id"].take(pa.array(order))
    changed = pc.not_equal(after["example_id"], before)
    return pa.table({"example_id": after["example_id"], "parent_id": before}).filter(changed)


def _report(counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        **{name: counts.get(name, 0) for name in ("images", "shrunk", "bytes_before", "bytes_after")},
        "by_media_type": {name: count for name, count in sorted(counts.items()) if " to " in name},
    }


def _dry(plan: _Plan, on_progress: Progress) -> StageResult:
    """The same work with nothing written."""
    tally, counts = Tally(), Counter[str]()
    for done in plan.done(plan.units, on_progress):
        tally.add(_tally(done))
        counts.update(done.counts)
    return stage_result(plan.config.output, None, tally.to_json(), _report(counts))
