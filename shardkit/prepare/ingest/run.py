"""shardkit ingest: raw inputs to one committed dataset.

    listing -> units -> chunks -> (workers: records -> drafts -> examples) -> unit shards and receipt -> manifest

The parent process reads borders and writes; workers parse, read pictures and decode. Results come back in order, so the
dataset does not depend on how many workers there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardkit.digest import fingerprint
from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError, SourceError
from shardkit.media.decode import DECODER
from shardkit.media.phash import LOOKS
from shardkit.prepare.ingest.accounts import Accounts, input_row, inputs_table, judge
from shardkit.prepare.ingest.columns import check_fields
from shardkit.prepare.ingest.config import INGEST_VERSION, MISSING_IMAGE, IngestConfig
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.formats import SOURCES, Source
from shardkit.prepare.ingest.formats.detect import AUTO, resolved
from shardkit.prepare.ingest.group import group_key
from shardkit.prepare.ingest.grown import only_new, tails
from shardkit.prepare.ingest.label_vocab import vocabulary_digest
from shardkit.prepare.ingest.listing import Listing, list_inputs
from shardkit.prepare.ingest.missing_urls import check_place, write_missing
from shardkit.prepare.ingest.planning import check_inputs, chunks, units, weight
from shardkit.prepare.ingest.result import IngestResult, committed, found
from shardkit.prepare.ingest.roots import FileRead, as_text, digest_input
from shardkit.prepare.ingest.same import same_files, same_inputs
from shardkit.prepare.ingest.space import check_space, disk_need
from shardkit.prepare.ingest.units import Unit
from shardkit.prepare.ingest.url_map import map_files
from shardkit.prepare.ingest.work import Done, Job, Task, work
from shardkit.records import Exclusion, Tally
from shardkit.store.dataset import Dataset
from shardkit.store.merge import Sealed
from shardkit.store.output import Output
from shardkit.store.receipts import Receipt
from shardkit.store.units import UnitWriter


def run(
    config: IngestConfig, on_progress: Progress = silent, on_notice: Callable[[str], None] = lambda _: None
) -> IngestResult:
    """Ingest what `config` asks for, or find that it is there already.

    Args:
        on_notice: takes what a person should know before the work begins.

    Raises:
        ConfigError, SourceError, OutputError: as errors.py has them.
    """
    config = resolved(config)
    source = _source(config)
    if config.missing_urls is not None:
        check_place(config.missing_urls, config)
    listing = list_inputs(config, source.containers, source.labels, source.naming, source.is_list)
    check_inputs(listing, source, config)
    name = config.source or as_text(os.path.basename(listing.roots.input_root)) or "root"
    recipe = config.recipe(
        source=name,
        on_missing_image=config.on_missing_image or source.on_missing_image,
        label_vocab=None if config.label_vocab is None else vocabulary_digest(config.label_vocab),
    )
    listing = only_new(listing, source, config, recipe)
    url_maps = map_files(config.url_maps)
    ingest = _Ingest(
        config=config,
        source=source,
        listing=listing,
        job=Job(config=config, source=name, recipe=fingerprint(recipe), roots=listing.roots, url_maps=url_maps),
        maps=tuple(digest_input(path, listing.roots.name(path)) for path in url_maps),
        on_progress=on_progress,
        total=sum(file.size - file.start for _, file in listing.inputs),
    )
    if config.dry_run or config.output is None:
        return ingest.rehearse()
    with Output(
        config.output,
        stage="ingest",
        recipe={**recipe, **tails(listing)},
        inputs=ingest.input_names,
        protected=_protected(config),
        overwrite=config.overwrite,
    ) as output:
        if output.unchanged is not None and same_inputs(output.unchanged, listing):
            result = found(config.output, output.unchanged)
        else:
            if output.unchanged is not None:
                output.replace()
            done = sum(shard.size for receipt in output.receipts.values() for shard in receipt.shards)
            check_space(disk_need(listing, config), config.output, on_notice, done=done)
            result = ingest.write(output)
    if config.missing_urls is not None:
        write_missing(Dataset.open(config.output), config.missing_urls, overwrite=config.overwrite)
    return result


def _source(config: IngestConfig) -> Source:
    if config.format not in SOURCES:
        raise ConfigError(
            f"there is no source format {config.format!r}", hint=f"use one of: {', '.join([AUTO, *SOURCES])}"
        )
    source = SOURCES[config.format]
    check_fields(config, source.fields)
    if config.group_by is not None:
        group_key(config.group_by, source="")
    policy = config.on_missing_image
    if policy == "drop-image" and source.on_missing_image != "drop-image":
        raise ConfigError(
            f"a record of {config.format} cannot go without its image",
            hint=f"use --on-missing-image {' or '.join(MISSING_IMAGE[1:])}",
        )
    return source


def _protected(config: IngestConfig) -> list[Path]:
    """What the output may not touch. It may lie below a folder of --images, but not hold one."""
    output = Path(os.path.abspath(config.output or "")).resolve()
    others = [path for path in (*config.images, *config.url_maps) if path.resolve().is_relative_to(output)]
    return [*config.paths, *config.new_since, *others]


@dataclass(kw_only=True, slots=True)
class _Ingest:
    config: IngestConfig
    source: Source
    listing: Listing
    job: Job
    maps: tuple[FileRead, ...]
    on_progress: Progress
    total: int
    """Bytes of all inputs."""
    read: int = 0
    excluded: int = 0
    first_excluded: Exclusion | None = None
    asked: set[str] = field(default_factory=set)
    """Inputs whose digest is being taken."""
    digests: dict[str, FileRead] = field(default_factory=dict)
    planned: dict[int, Unit] = field(default_factory=dict)
    """Units whose results are still to come."""
    num_units: int = 0
    num_bytes: int = 0
    """Bytes of the inputs whose units are done."""
    at_hand: int = 0
    """Bytes that are done of the unit at hand, about."""

    @property
    def input_names(self) -> list[str]:
        """What a rerun must be given again, and is compared by name before any byte is read."""
        return [*self.listing.names, *(file.name for file in self.maps)]

    # ------------------------------------------------------------------ the work
    def _done(self, output: Output | None) -> Iterator[Done]:
        return map_ordered(partial(work, self.job), self._tasks(output), workers=self.config.workers)

    def _tasks(self, output: Output | None) -> Iterator[Task]:
        """Everything to do, unit by unit; units that a killed run finished are passed over."""
        opener, at_hand = Opener(), set[str]()
        try:
            for unit in units(self.listing, self.source, self.config, opener):
                self.num_units = unit.index + 1
                if output is not None and self._is_done(unit, output):
                    self.num_bytes += unit.size
                else:
                    self.planned[unit.index] = unit
                    yield from self._tasks_of(unit, opener)
                last = unit.slices[-1].file.name  # it may go on in the next unit
                opener.forget((at_hand | unit.inputs.keys()) - {last})
                at_hand = {last}
        finally:
            opener.close()

    def _tasks_of(self, unit: Unit, opener: Opener) -> Iterator[Task]:
        for piece in unit.slices:
            if piece.container != "files":
                for file in (piece.file, *piece.file.beside):
                    if file.name not in self.asked | self.digests.keys():
                        self.asked.add(file.name)
                        yield Task(unit=unit.index, digest=file)
            for chunk in chunks(piece, self.source, self.config, opener):
                yield Task(unit=unit.index, container=piece.container, chunk=chunk, weight=weight(piece, chunk))

    def _is_done(self, unit: Unit, output: Output) -> bool:
        """Whether a receipt holds for `unit`: the same borders, and every file that was read has the same bytes."""
        name = _name(unit.index)
        receipt = output.receipts.get(name)
        if receipt is None:
            return False
        files = [FileRead(name=n, size=s, xxh3=x) for n, s, x in receipt.notes["files"]]
        fresh = [file for file in files if self.digests.get(file.name) != file]
        same_maps = receipt.notes["maps"] == [[m.name, m.size, m.xxh3] for m in self.maps]
        if (
            self.config.limit is None
            and receipt.notes["unit"] == fingerprint(unit.key())
            and same_maps
            and same_files(fresh, self.listing.roots)
        ):
            self.digests.update({file.name: file for file in files if file.name in unit.inputs})
            self.read += receipt.tally["read"]
            self.excluded += receipt.tally["excluded"]
            return True
        output.drop(name)
        return False

    def _take(self, done: Done, tally: Tally, accounts: Accounts) -> Done:
        """Count the results of a chunk: all of them, or those up to --limit.

        Raises:
            SourceError: at the first exclusion with --on-error fail.
        """
        if self.config.limit is not None:
            done = done.first(self.config.limit - self.read)
        for name, outcome in zip(done.inputs(), done.outcomes, strict=True):
            account = accounts.setdefault(name, Tally())
            for counts in (tally, account):
                counts.read += 1
                if outcome is None:
                    counts.kept += 1
                else:
                    counts.excluded[outcome.reason] += 1
            if outcome is not None:
                self._exclude(outcome)
        self.read += len(done.outcomes)
        tally.changes.update(done.changes)
        return done

    def _exclude(self, exclusion: Exclusion) -> None:
        self.excluded += 1
        self.first_excluded = self.first_excluded or exclusion
        if self.config.on_error == "fail":
            raise SourceError(
                f"{exclusion.detail} ({exclusion.reason})",
                where=f"{exclusion.input}:{exclusion.position}",
                hint="correct it, or leave such records out with --on-error exclude",
            )

    @property
    def _full(self) -> bool:
        return self.config.limit is not None and self.read >= self.config.limit

    def _say(self, done: Done) -> None:
        self.at_hand += done.weight
        unit = self.planned.get(done.unit)
        known = self.num_bytes + (self.at_hand if unit is None else min(self.at_hand, unit.size))
        self.on_progress(min(known, self.total), self.total, f"{self.read} read, {self.excluded} excluded")

    # ------------------------------------------------------------------ without output
    def rehearse(self) -> IngestResult:
        """Everything but writing: the counts and sizes that the run would have."""
        told = disk_need(self.listing, self.config)
        need = None if told is None else told.most
        tally = Tally()
        images = size = 0
        accounts: Accounts = {}
        for done in self._done(None):
            taken = self._take(done, tally, accounts)
            if taken.rows is not None:
                images += sum(taken.rows.num_images)
                size += sum(taken.rows.sizes)
            self._say(done)
            if self._full:
                break
        return IngestResult(
            path=None,
            dataset=None,
            tally=tally,
            num_images=images,
            num_bytes=size,
            num_ignored=self.listing.ignored,
            disk_need=need,
        )

    # ------------------------------------------------------------------ with output
    def write(self, output: Output) -> IngestResult:
        """Write every unit that has no receipt, judge the whole, commit."""
        for index, results in groupby(self._done(output), key=attrgetter("unit")):
            writer = output.unit(index, _name(index), shards=self.config.shards, shard_size=self.config.shard_size)
            with writer:
                unit = self.planned[index]
                self._write_unit(unit, results, writer)
            del self.planned[index]
            self.num_bytes += unit.size
            self.at_hand = 0
            if self._full:
                break
        for name in set(output.receipts) - {_name(index) for index in range(self.num_units)}:
            output.drop(name)
        receipts = sorted(output.receipts.values(), key=attrgetter("index"))
        tally = Tally()
        for receipt in receipts:
            tally.add(receipt.restored_tally())
        judge(tally, self.config, self.job.source, self.first_excluded, self._accounts(receipts))
        dataset = output.commit(
            Sealed(
                tally=tally,
                tables={"inputs": [self._inputs_table(receipts)]},
                report={"inputs": self.input_names, "ignored_files": self.listing.ignored},
                format_versions={"ingest": INGEST_VERSION, "decoder": DECODER, "looks": LOOKS},
            )
        )
        assert self.config.output is not None
        shards = (shard.counts for receipt in receipts for shard in receipt.shards)
        return committed(self.config.output, dataset, tally, shards)

    def _inputs_table(self, receipts: list[Receipt]) -> pa.Table:
        beside = {table.name for _, file in self.listing.inputs for table in file.beside}
        return inputs_table(self._accounts(receipts), self.digests, maps=self.maps, beside=beside)

    def _accounts(self, receipts: list[Receipt]) -> Accounts:
        """The accounts of all units together."""
        accounts: Accounts = {}
        for receipt in receipts:
            for name, counts in receipt.notes["inputs"].items():
                accounts.setdefault(name, Tally()).add(Tally.from_json(counts))
        return accounts

    def _write_unit(self, unit: Unit, results: Iterator[Done], writer: UnitWriter) -> None:
        accounts: Accounts = {}
        files: dict[str, FileRead] = {}
        missing: list[dict[str, Any]] = []
        containers = unit.inputs
        for done in results:
            taken = self._take(done, writer.tally, accounts)
            if taken.rows is not None:
                writer.extend(taken.rows)
            for outcome in taken.outcomes:
                if outcome is not None:
                    writer.exclude(outcome)
            missing += taken.missing
            for file in done.files:
                if file.name in containers:
                    self._note(file, containers[file.name].size)
                else:
                    files[file.name] = file
            self._say(done)
            if self._full:
                break
        writer.append("missing", missing)
        rows = [input_row(file, accounts.get(name)) for name, file in sorted(files.items())]
        writer.append("inputs", rows)
        read = [*files.values(), *(self.digests[name] for name in sorted(containers) if name in self.digests)]
        writer.finish(
            notes={
                "unit": fingerprint(unit.key()),
                "files": [[file.name, file.size, file.xxh3] for file in read],
                "maps": [[file.name, file.size, file.xxh3] for file in self.maps],
                "inputs": {name: account.to_json() for name, account in sorted(accounts.items()) if name in containers},
            }
        )

    def _note(self, file: FileRead, size: int) -> None:
        if file.size != size:
            raise SourceError(
                f"the input changed while it was read: it had {size} bytes, now {file.size}",
                where=file.name,
                hint="run the command again when nothing writes to the inputs",
            )
        self.digests[file.name] = file


def _name(index: int) -> str:
    return f"{index:05d}"
