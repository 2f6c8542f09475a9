"""What is new in a dump that has grown: inputs that older datasets were not made from.

    ingests behind OLD -> the same recipe? -> their files, read and compared, nothing decoded -> the listing without them

The rest is ingested as a dataset of its own, and `shardkit concat` joins the two. That is an append: no shard of the older
dataset is touched, and whoever reads one goes on. Which inputs are left out decides only what is read, as PATHs do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from shardkit.engine import map_ordered
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import pairs
from shardkit.prepare.ingest.formats import Source
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.roots import FileRead, Roots
from shardkit.prepare.ingest.same import same_files
from shardkit.prepare.ingest.units import InputFile
from shardkit.store.dataset import Dataset

_BATCH = 256
"""Files that a worker compares at a time."""
_SHOWN = 5
_ANEW = "ingest the dump as a whole into another dataset, without --new-since"


def only_new(listing: Listing, source: Source, config: IngestConfig, recipe: Mapping[str, Any]) -> Listing:
    """The listing without what the datasets of --new-since were made from; it may be empty.

    Raises:
        ConfigError: where these were made in another way.
        SourceError: where a file that they were made from has changed, or is gone.
        IntegrityError: where one of them is damaged, or what it was made from is not there.
    """
    if not config.new_since:
        return listing
    if config.limit is not None:
        raise ConfigError("--limit and --new-since exclude each other", hint="give one of them")
    old = _Old.of([Dataset.open(path) for path in config.new_since], recipe)
    changed = list(islice(_changed(old.files, listing.roots, config.workers), _SHOWN + 1))
    if changed:
        more = ", ..." if len(changed) > _SHOWN else ""
        raise SourceError(
            f"inputs that are in the older dataset are others now, or gone: {', '.join(changed[:_SHOWN])}{more}",
            where=", ".join(map(str, config.new_since)),
            hint=_ANEW,
        )
    inputs, files = [], listing.files
    for kind, file in listing.inputs:
        if kind == "files":
            files = tuple(_new_stems(listing, source, config, file, old))
            if files:
                inputs.append((kind, replace(file, size=sum(max(0, one.size) for one in files))))
        elif file.name not in old.names:
            inputs.append((kind, file))
        elif beside := [one.name for one in file.beside if one.name not in old.names]:
            raise SourceError(
                f"{beside[0]} is new and says more of the records of {file.name}, which the older dataset holds",
                hint=_ANEW,
            )
    return replace(listing, inputs=tuple(inputs), files=files)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Old:
    ingests: tuple[Dataset, ...]
    files: tuple[FileRead, ...]
    """Everything that they read, or found missing."""
    names: frozenset[str]
    """Of these files."""

    @classmethod
    def of(cls, datasets: Sequence[Dataset], recipe: Mapping[str, Any]) -> _Old:
        found: dict[str, Dataset] = {}
        for dataset in datasets:
            _visit(dataset, found)
        alike = tuple(one for one in found.values() if one.recipe["source"] == recipe["source"])
        if not alike:
            sources = sorted({str(one.recipe["source"]) for one in found.values()})
            raise ConfigError(
                f"nothing in the older dataset comes from {recipe['source']!r} (its sources: {', '.join(sources)})",
                where=", ".join(str(dataset.path) for dataset in datasets),
                hint="name the source with --source, or leave --new-since out",
            )
        for one in alike:
            if one.recipe != recipe:
                _refuse(one, recipe)
        files = tuple(file for one in alike for file in _files(one))
        return cls(ingests=alike, files=files, names=frozenset(file.name for file in files))

    def kept_any(self, names: Sequence[str]) -> bool:
        """Whether an example came from one of these inputs."""
        wanted = pa.array(names, pa.string())
        return any(pc.any(pc.is_in(one.table("examples", ["input"])["input"], wanted)).as_py() for one in self.ingests)


def _visit(dataset: Dataset, found: dict[str, Dataset]) -> None:
    """The ingests that a dataset was made from, by id."""
    if dataset.stage == "ingest":
        found[dataset.id] = dataset
        return
    for dataset_id in dataset.manifest.inputs:
        _visit(dataset.holder(dataset_id), found)


def _refuse(old: Dataset, recipe: Mapping[str, Any]) -> None:
    name = next(key for key in sorted({*old.recipe, *recipe}) if old.recipe.get(key) != recipe.get(key))
    raise ConfigError(
        f"the older dataset was made in another way: {name} was {old.recipe.get(name)!r}, now {recipe.get(name)!r}",
        where=str(old.path),
        hint=f"use the options that it was made with, or {_ANEW}",
    )


def _files(dataset: Dataset) -> Iterator[FileRead]:
    table = dataset.table("inputs", ["input", "size", "xxh3"])
    for name, size, digest in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield FileRead(name=name, size=size, xxh3=digest)


def _changed(files: Sequence[FileRead], roots: Roots, workers: int) -> Iterator[str]:
    """Names of files that are not what was noted."""
    batches = (files[start : start + _BATCH] for start in range(0, len(files), _BATCH))
    for names in map_ordered(partial(_others, roots), batches, workers=workers):
        yield from names


def _others(roots: Roots, files: Sequence[FileRead]) -> list[str]:
    """Run by a worker."""
    return [file.name for file in files if not same_files([file], roots)]


def _new_stems(
    listing: Listing, source: Source, config: IngestConfig, root: InputFile, old: _Old
) -> Iterator[InputFile]:
    """Files of stems that are new. One that was left out before, for want of a part that came since, is new too."""
    pieces = pairs.plan(
        listing.files, source.labels, root, max_bytes=config.unit_size, naming=listing.naming, peeks=source.peeks
    )
    for piece in pieces:
        of_stem = zip(piece.stems, piece.files, strict=True)
        for stem, together in groupby(of_stem, key=lambda entry: entry[0]):
            files = [file for _, file in together]
            known = [file.name for file in files if file.name in old.names]
            if len(known) == len(files):
                continue
            if known and old.kept_any(known):
                new = next(file.name for file in files if file.name not in old.names)
                raise SourceError(f"{new} is new and belongs to {stem}, which the older dataset holds", hint=_ANEW)
            yield from files
