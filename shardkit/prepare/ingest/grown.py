"""What is new in a dump that has grown: inputs that older datasets were not made from.

    ingests behind OLD -> the same recipe? -> their files, read and compared, nothing decoded -> the listing without them

The rest is ingested as a dataset of its own, and `shardkit concat` joins the two. That is an append: no shard of the older
dataset is touched, and whoever reads one goes on. Which inputs are left out decides only what is read, as PATHs do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shardkit.engine import map_ordered
from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import pairs
from shardkit.prepare.ingest.formats import Source
from shardkit.prepare.ingest.listing import Listing
from shardkit.prepare.ingest.roots import FileRead, Roots, open_input
from shardkit.prepare.ingest.same import same_files
from shardkit.prepare.ingest.units import InputFile
from shardkit.store.dataset import Dataset

TAILS = "tails"
_BATCH = 256
"""Files that a worker compares at a time."""
_BLOCK = 1 << 20
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh")
"""How compressed files begin."""

Tail = tuple[int, int]
"""Where what is new in a file of lines begins: bytes before it, and the number of its first line."""
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
    grown = old.compared(listing, config.workers)
    inputs, files = [], listing.files
    for kind, file in listing.inputs:
        if kind == "files":
            files = tuple(_new_stems(listing, source, config, file, old))
            if files:
                inputs.append((kind, replace(file, size=sum(max(0, one.size) for one in files))))
        elif file.name in grown:
            inputs.append((kind, replace(file, start=grown[file.name][0], first=grown[file.name][1])))
        elif file.name not in old.names:
            inputs.append((kind, file))
        elif beside := [one.name for one in file.beside if one.name not in old.names]:
            raise SourceError(
                f"{beside[0]} is new and says more of the records of {file.name}, which the older dataset holds",
                hint=_ANEW,
            )
    return replace(listing, inputs=tuple(inputs), files=files)


def tails(listing: Listing) -> dict[str, Any]:
    """A part of the recipe: where files that have grown begin, in bytes and lines. Nothing where none has."""
    begin = {file.name: [file.start, file.first] for _, file in listing.inputs if file.start}
    return {TAILS: dict(sorted(begin.items()))} if begin else {}


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
            _check_recipe(one, recipe)
        files = tuple(file for one in alike for file in _files(one))
        return cls(ingests=alike, files=files, names=frozenset(file.name for file in files))

    def compared(self, listing: Listing, workers: int) -> dict[str, Tail]:
        """Files of lines that have grown since, and where what is new in them begins.

        Raises:
            SourceError: where any other file has changed, or is gone.
        """
        growing = frozenset(file.name for kind, file in listing.inputs if kind == "jsonl")
        batches = (self.files[start : start + _BATCH] for start in range(0, len(self.files), _BATCH))
        grown: dict[str, list[Tail]] = {}
        changed: list[str] = []
        for found in map_ordered(partial(_others, listing.roots, growing), batches, workers=workers):
            for name, tail in found:
                if tail is None:
                    changed.append(name)
                else:
                    grown.setdefault(name, []).append(tail)
        if changed:
            more = ", ..." if len(changed) > _SHOWN else ""
            raise SourceError(
                f"inputs that are in the older dataset are others now, or gone: {', '.join(changed[:_SHOWN])}{more}",
                hint=_ANEW,
            )
        # A file may have been taken in up to several places; where one of them is its end, nothing of it is new.
        notes = Counter(file.name for file in self.files if file.name in grown)
        return {name: max(found) for name, found in grown.items() if len(found) == notes[name]}

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


def _check_recipe(old: Dataset, recipe: Mapping[str, Any]) -> None:
    before = {name: value for name, value in old.recipe.items() if name != TAILS}
    for name in sorted({*before, *recipe}):
        if before.get(name) != recipe.get(name):
            raise ConfigError(
                f"the older dataset was made in another way: {name} was {before.get(name)!r}, now {recipe.get(name)!r}",
                where=str(old.path),
                hint=f"use the options that it was made with, or {_ANEW}",
            )


def _files(dataset: Dataset) -> Iterator[FileRead]:
    table = dataset.table("inputs", ["input", "size", "xxh3"])
    for name, size, digest in zip(*(column.to_pylist() for column in table.columns), strict=True):
        yield FileRead(name=name, size=size, xxh3=digest)


def _others(roots: Roots, growing: frozenset[str], files: Sequence[FileRead]) -> list[tuple[str, Tail | None]]:
    """The files that are not what was noted, with where they have grown if that is all; run by a worker.

    Args:
        growing: names of files of lines.
    """
    return [
        (file.name, _tail(file, roots) if file.name in growing else None)
        for file in files
        if not same_files([file], roots)
    ]


def _tail(noted: FileRead, roots: Roots) -> Tail | None:
    """Where what is new begins; None where the bytes before it are others, packed, or end within a line."""
    path = roots.path(noted.name)
    if path is None or noted.size <= 0:
        return None
    digest, lines, left, last = xxhash.xxh3_128(), 0, noted.size, b""
    with open_input(path, noted.name) as handle:
        if handle.read(4).startswith(_PACKED):
            return None
        handle.seek(0)
        while left and (block := handle.read(min(left, _BLOCK))):
            digest.update(block)
            lines += block.count(b"\n")
            left, last = left - len(block), block[-1:]
    whole = not left and last == b"\n" and digest.hexdigest() == noted.xxh3
    return (noted.size, lines + 1) if whole else None


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
