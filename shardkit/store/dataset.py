"""A committed dataset: its manifest, tables and shards, read with checks.

    manifest.json -> tables (digest of the file) -> shards (size, then block by block)

The manifest of a view names shards of other datasets, and tables/examples.parquet says which of their rows it selects;
rows that it changed lie in shards of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardkit.errors import IntegrityError, SourceError
from shardkit.records import Example
from shardkit.records.manifest import Manifest, ShardEntry
from shardkit.store.arrow_shard import TableReader
from shardkit.store.blocks import Verify
from shardkit.store.files import check_file, is_text
from shardkit.store.manifest_file import MANIFEST, id_of, parse_manifest
from shardkit.store.mirror import Mirror
from shardkit.store.remote import RemoteSettings, as_url
from shardkit.store.rows import Block
from shardkit.store.shard import ShardReader, ShardRef, fetch, open_examples, open_sequences
from shardkit.store.tables import EXCLUSIONS, read_table, table_path


class Dataset:
    """A dataset on disk. Opening reads the manifest only; nothing is ever written."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        *,
        dataset_id: str,
        base: Sequence[Path] = (),
        mirror: Mirror | None = None,
    ) -> None:
        self.path = path
        """Its folder; of a dataset behind a URL, what this host keeps of it."""
        self.mirror = mirror
        """Fetches what lies behind a URL; None for a dataset on disk."""
        self.manifest = manifest
        self.id = dataset_id
        self._base = tuple(base)
        self._holders: dict[str, Dataset] = {}
        self._places: dict[str, list[int]] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        base: Sequence[Path] = (),
        check_id: bool = True,
        remote: RemoteSettings | None = None,
    ) -> Dataset:
        """Open the dataset at `path`, a folder or a URL of one.

        Args:
            base: where inputs of a view are looked for when they are not where they were.
            check_id: compare the dataset id with the manifest's content; `audit` does it later itself.
            remote: how a URL is reached and where its files are kept; None for the defaults.

        Raises:
            SourceError: where no dataset is.
            IntegrityError: where its manifest is damaged, or of a newer format.
        """
        url = as_url(path)
        if url is not None:
            return cls._open_mirror(Mirror(url, remote or RemoteSettings()), base, check_id=check_id)
        folder = Path(path)
        if not is_text(os.path.abspath(folder)):  # manifests of what is made from it name it from elsewhere
            raise SourceError(
                "the name of a folder on the way is no UTF-8, which Arrow cannot open",
                where=ascii(str(folder)),
                hint="rename it, or name it by a link",
            )
        file = folder / MANIFEST
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            raise SourceError(
                "no dataset is here (there is no manifest.json)",
                where=str(folder),
                hint="name a folder that a shardkit command committed; an interrupted command goes on when it is run again",
            ) from None
        except OSError as error:
            raise SourceError(
                f"manifest.json cannot be read ({error.strerror})",
                where=str(folder),
                hint="check the path and its permissions",
            ) from error
        return cls._of(data, file, base, check_id=check_id)

    @classmethod
    def _open_mirror(cls, mirror: Mirror, base: Sequence[Path], *, check_id: bool) -> Dataset:
        try:
            data = mirror.manifest(MANIFEST)
        except IntegrityError as error:
            raise SourceError(
                "no dataset is here (there is no manifest.json)",
                where=mirror.url,
                hint="give the URL of the folder that holds manifest.json",
            ) from error
        return cls._of(data, mirror.folder / MANIFEST, base, check_id=check_id, mirror=mirror)

    @classmethod
    def _of(
        cls, data: bytes, file: Path, base: Sequence[Path], *, check_id: bool, mirror: Mirror | None = None
    ) -> Dataset:
        where = str(file) if mirror is None else mirror.name(MANIFEST)
        manifest, stated = parse_manifest(data, where, check_id=check_id)
        return cls(file.parent, manifest, dataset_id=stated, base=base, mirror=mirror)

    @property
    def where(self) -> str:
        """Its path or URL, as it can be opened again."""
        return str(self.path) if self.mirror is None else self.mirror.url

    @property
    def place(self) -> str:
        """The same as people want to see it: without `..`."""
        return os.path.normpath(self.path) if self.mirror is None else self.mirror.url

    @property
    def remote(self) -> RemoteSettings | None:
        """How it is reached, where it lies behind a URL; with `where` it can be opened again."""
        return None if self.mirror is None else self.mirror.settings

    @property
    def stage(self) -> str:
        return self.manifest.stage

    @property
    def recipe(self) -> dict[str, Any]:
        return dict(self.manifest.recipe)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits; ("all",) where the dataset was never split."""
        return self.manifest.splits

    @property
    def is_split(self) -> bool:
        """Whether it has splits; one that has none is `all`."""
        return self.splits != ("all",)

    @cached_property
    def shards(self) -> tuple[ShardRef, ...]:
        """The shards of examples, in order."""
        return self._refs(self.manifest.shards)

    @cached_property
    def sequence_shards(self) -> tuple[ShardRef, ...]:
        """The shards of sequences that tokenize wrote, in order."""
        return self._refs(self.manifest.sequences)

    def examples_of(self, sequences: ShardRef) -> Sequence[int]:
        """Where the shards of examples that a shard of sequences counts by stand in `shards`.

        Its rows name their example's shard by the place in the list of the dataset that holds them.
        """
        holder = sequences.holder
        if holder is self:
            return range(len(self.shards))
        if holder.id not in self._places:
            places = {(shard.holder.id, shard.name, shard.split): shard.index for shard in self.shards}
            self._places[holder.id] = [places[one.holder.id, one.name, one.split] for one in holder.shards]
        return self._places[holder.id]

    def _refs(self, entries: Sequence[ShardEntry]) -> tuple[ShardRef, ...]:
        refs = []
        for index, entry in enumerate(entries):
            holder = self if entry.dataset is None else self.holder(entry.dataset)
            path = holder.path / entry.path if holder.mirror is None else holder.mirror.path(entry)
            refs.append(ShardRef(index=index, entry=entry, path=path, holder=holder))
        return tuple(refs)

    def holder(self, dataset_id: str) -> Dataset:
        """The dataset of that id which this view refers to.

        Raises:
            IntegrityError: where it is neither at its place nor below a base.
        """
        found = self.find(dataset_id)
        if found is None:
            raise IntegrityError(
                f"the input dataset {dataset_id} is not at {self._stated(dataset_id)} any more",
                where=str(self.path),
                hint="bring it back, or say where it is with --base DIR",
            )
        return found

    def find(self, dataset_id: str) -> Dataset | None:
        """The input of that id, at its place or below a base; None where it is not there."""
        if dataset_id not in self._holders and self.mirror is not None and dataset_id in self.manifest.locations:
            mirror = self.mirror.beside(self.manifest.locations[dataset_id])
            with contextlib.suppress(SourceError):
                found = self._open_mirror(mirror, self._base, check_id=True)
                if found.id == dataset_id:
                    self._holders[dataset_id] = found
        if dataset_id not in self._holders:
            places = [self._stated(dataset_id)]
            for base in self._base:
                places += [base, *sorted(child for child in base.iterdir() if child.is_dir())] if base.is_dir() else []
            place = next((place for place in places if place != self.path and id_of(place) == dataset_id), None)
            if place is None:
                return None
            self._holders[dataset_id] = Dataset.open(place, base=self._base)
        return self._holders[dataset_id]

    def _stated(self, dataset_id: str) -> Path:
        """Where the manifest says that an input is."""
        return self.path / self.manifest.locations.get(dataset_id, "")

    # ------------------------------------------------------------------ tables
    def has_table(self, name: str) -> bool:
        return any(entry.path == table_path(name) for entry in self.manifest.tables)

    def table(self, name: str, columns: Sequence[str] | None = None, *, as_stored: bool = False) -> pa.Table:
        """A table of the dataset, its file compared with the manifest first.

        Args:
            name: examples, assets, rows, ...; "provenance" is provenance/provenance.parquet.
            columns: those to read; None for all.
            as_stored: without the columns, all null, that later versions added.

        Raises:
            IntegrityError: where the file is missing, damaged or not listed.
        """
        return read_table(self.table_file(name), name, columns, as_stored=as_stored)

    def table_file(self, name: str) -> Path:
        """The file of a table, compared with the manifest.

        Raises:
            IntegrityError: where it is missing, damaged or not listed.
        """
        if not self.has_table(name):
            raise IntegrityError(
                f"the dataset has no table {name!r}", where=str(self.path), hint="build it again with this version"
            )
        stated = self.manifest.produced_by["table_files"][table_path(name)]
        return self.file(table_path(name), size=stated["size"], digest=stated["xxh3"])

    def file(self, relative: str, *, size: int, digest: str) -> Path:
        """A file of the dataset beside its shards, compared with what the manifest says of it.

        Raises:
            IntegrityError: where it is missing or differs.
        """
        if self.mirror is not None:
            return self.mirror.small(relative, size=size, digest=digest)
        check_file(self.path / relative, size=size, digest=digest)
        return self.path / relative

    def folder(self, name: str) -> Path:
        """A folder of the dataset beside its shards; of one behind a URL, fetched."""
        if self.mirror is not None:
            for file in self.manifest.files:
                if file.path.startswith(f"{name}/"):
                    self.mirror.small(file.path, size=file.size, digest=file.xxh3)
        return self.path / name

    def exclusions(self) -> Iterator[bytes]:
        """Yield a line of JSON for each excluded row."""
        with (
            pa.input_stream(str(self.exclusions_file()), compression="zstd") as stream,
            io.BufferedReader(stream) as lines,
        ):
            for line in lines:
                yield line.rstrip(b"\n")

    def exclusions_file(self) -> Path:
        """The file of all excluded rows, a line of JSON each; of a dataset behind a URL, fetched."""
        if self.mirror is None:
            return self.path / EXCLUSIONS
        stated = self.manifest.produced_by["table_files"][EXCLUSIONS]
        return self.mirror.small(EXCLUSIONS, size=stated["size"], digest=stated["xxh3"])

    @cached_property
    def blocks(self) -> dict[str, list[Block]]:
        """The row blocks of each shard in its own folder, by the shard's path."""
        blocks: dict[str, list[Block]] = {}
        for row in self.table("rows").to_pylist():
            name = row.pop("shard")
            del row["block"]
            blocks.setdefault(name, []).append(Block(**row))
        return blocks

    # ------------------------------------------------------------------ shards
    def reader(self, shard: ShardRef, *, verify: Verify = "read", whole: bool = True) -> ShardReader:
        """Open a shard of examples.

        Args:
            whole: fetch all of a shard behind a URL; False fetches only the blocks that are asked for: better for a few rows.

        Raises:
            IntegrityError: where it is missing, of another size, or its bytes are not those of the manifest.
        """
        return open_examples(shard, verify, whole=whole)

    def sequence_reader(self, shard: ShardRef, *, verify: Verify = "read", whole: bool = True) -> TableReader:
        """Open a shard of sequences; see `reader`."""
        return open_sequences(shard, verify, whole=whole)

    def fetch(self, shard: ShardRef) -> None:
        """Fetch a shard that lies behind a URL into the cache of this host, ahead of reading it.

        Raises:
            IntegrityError: where it is missing, or not what the manifest says.
        """
        fetch(shard)

    def examples(
        self, split: str | None = None, *, verify: Verify = "read", whole: bool = True
    ) -> Iterator[tuple[int, int, Example]]:
        """Yield (shard index, row, example) of every selected row, in the order of tables/examples.parquet.

        Args:
            whole: see `reader`.
        """
        table = self.table("examples").select(["shard_index", "row"])
        reader: ShardReader | None = None
        current = -1
        for shard_index, row in zip(table["shard_index"].to_pylist(), table["row"].to_pylist(), strict=True):
            shard = self.shards[shard_index]
            if split is not None and shard.split != split:
                continue
            if shard_index != current or reader is None:
                if reader is not None:
                    reader.close()
                reader = self.reader(shard, verify=verify, whole=whole)
                current = shard_index
            yield shard_index, row, reader.example(row)
        if reader is not None:
            reader.close()
