"""`shardkit export`: a dataset as others read it.

    rows -> parts, one a file -> workers: checked rows to a file -> card -> the folder takes its place

Compressed pictures are copied as they are stored. Equal datasets give equal bytes, for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardkit.digest import sha256
from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import ConfigError
from shardkit.prepare.export.card import CARD, card
from shardkit.prepare.export.config import ExportConfig, ExportResult
from shardkit.prepare.export.facts import Counts, Facts
from shardkit.prepare.export.formats import EXPORTS
from shardkit.prepare.export.formats.format import Format
from shardkit.prepare.export.origins import Origins, by_image, origins_of
from shardkit.prepare.export.parts import Part, parts
from shardkit.prepare.export.row import Exported
from shardkit.prepare.named import check_split
from shardkit.prepare.report.chain import chain
from shardkit.store.dataset import Dataset
from shardkit.store.folder import Folder, FolderFile

NOTE = "shardkit-export.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every worker knows."""

    dataset: Path
    dataset_id: str
    bases: tuple[Path, ...]
    format: str
    folder: Path


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Task:
    part: Part
    origins: pa.Table
    """Provenance of the part's rows."""


def run(config: ExportConfig, on_progress: Progress = silent) -> ExportResult:
    """Export a dataset; or find that the same export is there; or only count (dry run).

    Raises:
        ConfigError: for a format or split that is not there, and names that a format cannot hold.
        SourceError, IntegrityError: where the dataset is missing or damaged.
        OutputError: where something else is at the output.
    """
    form = _format(config.format)
    dataset = Dataset.open(config.dataset, base=config.bases)
    splits = _splits(dataset, config.splits, form)
    pieces = partial(parts, dataset, splits, shard_size=config.shard_size, bases=config.bases, workers=config.workers)
    if config.dry_run or config.output is None:
        return _rehearse(config, dataset, pieces())
    holders = {shard.holder.path for shard in dataset.shards}
    with Folder(
        config.output,
        note=NOTE,
        made_from=config.made_from(dataset.id, {"pyarrow": pa.__version__}),
        by_content=form.by_content,
        protected=[config.dataset, *sorted(holders)],
        overwrite=config.overwrite,
    ) as folder:
        if folder.unchanged:
            return _result(config, dataset, folder.note, unchanged=True)
        counts, files = _write(config, dataset, pieces(), folder, on_progress)
        facts = Facts(
            about=config.about,
            dataset_id=dataset.id,
            stages=tuple(chain(dataset)),
            counts=counts,
            files={form.split_name(split): tuple(files[split]) for split in splits},
        )
        listed = [file for split in splits for file in files[split]]
        listed += [folder.write(name, data) for name, data in sorted(form.beside(facts).items())]
        listed.append(folder.write(CARD, card(facts, form, config.format).encode()))
        num_bytes = sum(file.size for split in splits for file in files[split])
        note = folder.commit(
            listed,
            {"counts": counts.to_json(), "num_files": sum(map(len, files.values())), "num_bytes": num_bytes},
        )
        return _result(config, dataset, note, unchanged=False)


def _format(name: str) -> Format:
    if name not in EXPORTS:
        raise ConfigError(f"there is no export format {name!r}", hint=f"use one of: {', '.join(EXPORTS)}")
    return EXPORTS[name]


def _splits(dataset: Dataset, wanted: tuple[str, ...], form: Format) -> tuple[str, ...]:
    for split in wanted:
        check_split(dataset, split)
    splits = tuple(split for split in dataset.splits if not wanted or split in wanted)
    names = [form.split_name(split) for split in splits]
    if len(set(names)) != len(names):
        raise ConfigError(
            f"two splits would have one name in this format ({', '.join(splits)} become {', '.join(names)})",
            where=str(dataset.path),
            hint="export them one by one with --split",
        )
    return splits


def _write(
    config: ExportConfig, dataset: Dataset, pieces: list[Part], folder: Folder, on_progress: Progress
) -> tuple[Counts, dict[str, list[FolderFile]]]:
    # Worker processes may stand in another folder, hence absolute paths.
    job = Job(
        dataset=dataset.path.absolute(),
        dataset_id=dataset.id,
        bases=tuple(base.absolute() for base in config.bases),
        format=config.format,
        folder=folder.new,
    )
    counts = Counts()
    files: dict[str, list[FolderFile]] = {}
    total, done = sum(part.num_bytes for part in pieces), 0
    results = map_ordered(partial(write_part, job), _tasks(dataset, pieces), workers=config.workers)
    for part, (file, found) in zip(pieces, results, strict=True):
        files.setdefault(part.split, []).append(file)
        counts.add(found)
        done += part.num_bytes
        on_progress(done, total, "writing")
    return counts, files


def _tasks(dataset: Dataset, pieces: list[Part]) -> Iterator[Task]:
    origins = Origins(dataset)
    ids = dataset.table("examples", ["example_id"])["example_id"]
    for part in pieces:
        yield Task(part=part, origins=origins.of(ids.take(pa.array(part.positions))))


def write_part(job: Job, task: Task) -> tuple[FolderFile, Counts]:
    """Write one file; run by a worker. Every row is compared with its digest before it goes out."""
    part, form = task.part, EXPORTS[job.format]
    name = form.name.format(split=form.split_name(part.split), number=part.number, count=part.count)
    counts = Counts()
    writer = form.open(job.folder, name)
    try:
        for one in _rows(job, task):
            writer.add(one)
            counts.take(one, part.split)
        file = writer.close()
    except BaseException:
        writer.abandon()
        raise
    counts.settle()
    return file, counts


def _rows(job: Job, task: Task) -> Iterator[Exported]:
    known = by_image(task.origins)
    dataset = Dataset.open(job.dataset, base=job.bases)
    assert dataset.id == job.dataset_id, "the dataset was replaced during the run"
    reader, current = None, -1
    for number, (shard, row) in enumerate(zip(task.part.shards.tolist(), task.part.rows.tolist(), strict=True)):
        if reader is None or shard != current:
            if reader is not None:
                reader.close()
            reader, current = dataset.reader(dataset.shards[shard]), shard
        example = reader.example(row)
        yield Exported(
            number=number,
            example=example,
            digests=tuple(sha256(image.data) for image in example.images),
            origins=origins_of(example, known),
        )
    if reader is not None:
        reader.close()


def _rehearse(config: ExportConfig, dataset: Dataset, pieces: list[Part]) -> ExportResult:
    """What would be written; pictures stay closed, so ids are not compared."""
    by_split: dict[str, int] = {}
    for part in pieces:
        by_split[part.split] = by_split.get(part.split, 0) + len(part.rows)
    return ExportResult(
        path=None,
        dataset_id=dataset.id,
        format=config.format,
        counts={"examples": sum(by_split.values()), "by_split": by_split},
        num_files=len(pieces),
        num_bytes=sum(part.num_bytes for part in pieces),
    )


def _result(config: ExportConfig, dataset: Dataset, note: dict[str, Any], *, unchanged: bool) -> ExportResult:
    return ExportResult(
        path=config.output,
        dataset_id=dataset.id,
        format=config.format,
        counts=note["counts"],
        num_files=note["num_files"],
        num_bytes=note["num_bytes"],
        unchanged=unchanged,
    )
