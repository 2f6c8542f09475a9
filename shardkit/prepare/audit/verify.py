"""`shardkit verify`: every file of a dataset against its manifest; with deep, every row against its bytes.

    manifest -> files (size, digest) -> tables (row digests, counts) -> shards of inputs (views) -> stray files
             -> deep: example ids, stored digests, pixels, asset ids, provenance
Nothing is written, and nothing stops at the first problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardkit.engine import Progress, map_ordered, silent
from shardkit.errors import IntegrityError, SourceError
from shardkit.prepare.audit.deep import deep_problems
from shardkit.prepare.audit.tables import table_problems
from shardkit.records.manifest import listed_files
from shardkit.store.dataset import Dataset
from shardkit.store.files import check_file
from shardkit.store.lock import LOCK
from shardkit.store.manifest_file import MANIFEST
from shardkit.store.mirror import Mirror
from shardkit.store.output import CACHE
from shardkit.store.receipts import WORK
from shardkit.store.remote import RemoteSettings, as_url
from shardkit.store.tar_shard import INDEX_SUFFIX, index_path

_NAMED = 20
_IGNORED = (f"{WORK}/", f"{CACHE}/")


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyConfig:
    dataset: Path
    deep: bool = False
    """Decode every image and compute every id again."""
    bases: tuple[Path, ...] = ()
    """Where moved inputs are looked for."""
    workers: int = 1
    remote: RemoteSettings | None = None
    """How a dataset behind a URL is reached, and where its files are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyResult:
    path: Path
    dataset_id: str
    files: int
    """Compared with the manifest, those of inputs included."""
    examples: int
    problems: tuple[str, ...]
    """`file: what`, in the order of the manifest."""
    stray: tuple[str, ...]
    """Files in the folder that are not of the dataset; no reader looks at them."""

    @property
    def where(self) -> str:
        """Path or URL."""
        return as_url(self.path) or str(self.path)

    @property
    def error(self) -> IntegrityError | None:
        if not self.problems:
            return None
        more = f" (and {len(self.problems) - _NAMED} more)" if len(self.problems) > _NAMED else ""
        return IntegrityError(
            "; ".join(self.problems[:_NAMED]) + more,
            where=self.where,
            hint="restore what is named, or build the dataset again from its inputs",
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": self.where,
            "id": self.dataset_id,
            "ok": not self.problems,
            "files": self.files,
            "examples": self.examples,
            "problems": list(self.problems),
            "stray": list(self.stray),
        }


def run(config: VerifyConfig, on_progress: Progress = silent) -> VerifyResult:
    """Compare a dataset with its manifest.

    Raises:
        SourceError: where no dataset is.
        IntegrityError: where the manifest itself is damaged, or the input of a view is gone.
    """
    dataset = Dataset.open(config.dataset, base=config.bases, remote=config.remote)
    files = list(dict.fromkeys(_files(dataset)))
    problems: list[str] = []
    bad: set[Path] = set()
    for done, (file, problem) in enumerate(map_ordered(_compare, files, workers=config.workers), 1):
        if problem:
            bad.add(file.path)
            problems.append(problem)
        on_progress(done, len(files), "files")
    problems += table_problems(dataset, bad)
    if config.deep:
        problems += deep_problems(dataset, bad, bases=config.bases, workers=config.workers, on_progress=on_progress)
    examples = next((entry.rows for entry in dataset.manifest.tables if entry.path == "tables/examples.parquet"), 0)
    return VerifyResult(
        path=config.dataset,
        dataset_id=dataset.id,
        files=len(files) + 1,
        examples=examples,
        problems=tuple(problems),
        stray=tuple(_stray(dataset)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    name: str
    """As it is reported: of an input's file, where the input lies too."""
    path: Path
    size: int
    xxh3: str
    mirror: Mirror | None = None
    """Of a file behind a URL; `remote` is its path there."""
    remote: str = ""


def _files(dataset: Dataset) -> Iterator[_File]:
    """Everything that the manifest names, and the shards of inputs that a view refers to."""
    mirror = dataset.mirror
    for shard in (*dataset.shards, *dataset.sequence_shards):
        entry, there = shard.entry, shard.holder.mirror
        name = entry.path
        if shard.holder is not dataset:
            name = os.path.normpath(shard.path) if there is None else there.name(entry.path)
        yield _File(name=name, path=shard.path, size=entry.size, xxh3=entry.xxh3, mirror=there, remote=entry.path)
        if entry.index_size is not None and entry.index_xxh3 is not None:
            yield _File(
                name=f"{name}{INDEX_SUFFIX}",
                path=index_path(shard.path),
                size=entry.index_size,
                xxh3=entry.index_xxh3,
                mirror=there,
                remote=f"{entry.path}{INDEX_SUFFIX}",
            )
    stated = dataset.manifest.produced_by["table_files"]
    others = [(table.path, stated[table.path]["size"], stated[table.path]["xxh3"]) for table in dataset.manifest.tables]
    others += [(file.path, file.size, file.xxh3) for file in dataset.manifest.files]
    for name, size, digest in others:
        yield _File(name=name, path=dataset.path / name, size=size, xxh3=digest, mirror=mirror, remote=name)


def _compare(file: _File) -> tuple[_File, str]:
    """A file, and what is wrong with it; run by a worker."""
    try:
        if file.mirror is None:
            check_file(file.path, size=file.size, digest=file.xxh3)
        else:
            file.mirror.check(file.remote, size=file.size, digest=file.xxh3)
    except (IntegrityError, SourceError) as error:
        return file, f"{file.name}: {error.what}"
    return file, ""


def _stray(dataset: Dataset) -> Iterator[str]:
    if dataset.mirror is not None:
        return  # many servers list nothing
    known = {MANIFEST, LOCK, *listed_files(dataset.manifest)}
    # Inputs that lie in the folder, as `export --self-contained` puts them there, have manifests of their own.
    inside = tuple(f"{place}/" for place in dataset.manifest.locations.values() if not place.startswith(".."))
    for file in sorted(dataset.path.rglob("*")):
        name = file.relative_to(dataset.path).as_posix()
        if not file.is_dir() and name not in known and not name.startswith((*_IGNORED, *inside)):
            yield name
