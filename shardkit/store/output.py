"""A dataset while it is made, and its commit.

    open     lock, refuse what is not ours, go on where a killed run stopped
    unit     shards and table parts of one slice of the input, then its receipt, each durable before the next
    commit   tables, then manifest.json, which must not exist: no manifest, no dataset

What a reader sees is the last committed state or the new one. `--overwrite` makes the new dataset beside the old one and
exchanges the two folders at the end.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import pyarrow as pa

from shardkit import __version__
from shardkit.digest import canonical_json
from shardkit.errors import OutputError, ShardkitError, SourceError
from shardkit.records.manifest import FileEntry, Manifest, TableEntry, listed_files
from shardkit.store.dataset import Dataset
from shardkit.store.difference import first_difference
from shardkit.store.files import (
    exchange,
    is_text,
    make_folder,
    output_errors,
    remove_tree,
    sync_folder,
    write_durably,
)
from shardkit.store.lock import LOCK, Locks
from shardkit.store.manifest_file import MANIFEST, id_of
from shardkit.store.merge import Merge, Sealed, sum_totals, write_exclusions, write_table
from shardkit.store.place import place_of_output
from shardkit.store.receipts import WORK, Receipt, read_receipts
from shardkit.store.schema import FORMAT_VERSIONS
from shardkit.store.tables import EXCLUSIONS
from shardkit.store.units import UnitWriter

CACHE = ".cache"
_GO_ON = "run the command that began it again to go on, or use --overwrite"


class Output:
    """The dataset that a stage writes; use it as a context manager.

    Args:
        path: the folder of the dataset.
        stage: name of the command.
        recipe: its config as JSON values; paths, workers and the output do not belong to it.
        inputs: ids of the datasets it reads; for ingest the named raw inputs, relative to the input root. A rerun must
            name the same.
        protected: folders and files that the output may not hold and may not lie in.
        overwrite: replace a dataset of ours that is there.

    Attributes:
        unchanged: the committed dataset, where one of the same stage, recipe and inputs is there already.
        receipts: unit name -> receipt of each unit that a killed run finished.

    Raises:
        OutputError: where something else is there, another run holds the lock, or the folder cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        stage: str,
        recipe: Mapping[str, Any],
        inputs: Sequence[str] = (),
        protected: Sequence[Path] = (),
        overwrite: bool = False,
    ) -> None:
        self.path = place_of_output(path, protected)
        self.stage = stage
        self.recipe = dict(recipe)
        self.inputs = list(inputs)
        self.overwrite = overwrite
        self.unchanged: Dataset | None = None
        self.receipts: dict[str, Receipt] = {}
        self._target = self.path
        self._locks = Locks()
        self._started = time.monotonic()
        self._protected = tuple(map(Path, protected))

    # ------------------------------------------------------------------ opening
    def __enter__(self) -> Output:
        try:
            self._open()
        except BaseException:
            self._locks.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(value, ShardkitError):
            self._leave_nothing()
        self._locks.release()

    def _leave_nothing(self) -> None:
        """Of a run that was refused before it wrote a shard nothing stays, so that it may be run with other options."""
        if self.unchanged is None and not self.receipts and not (self._target / "shards").exists():
            with contextlib.suppress(OutputError):  # the refusal is what the user must hear of
                remove_tree(self._target / WORK)
            with contextlib.suppress(OSError):  # a folder that was there with something in it stays
                (self._target / LOCK).unlink()
                self._target.rmdir()

    def _open(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise OutputError("a file is here", where=str(self.path), hint="choose another place with -o")
        fresh = not self.path.exists()
        if not fresh and not (self.path / MANIFEST).exists():
            self._meet_folder()  # before the lock, so that nothing is put into a folder that is not ours
        make_folder(self.path)
        self._locks.take(self.path)
        if (self.path / MANIFEST).exists():
            self._meet_dataset()
        elif not fresh:
            self._meet_folder()
        if self.unchanged is None:
            self._begin()

    def _meet_dataset(self) -> None:
        """A committed dataset is here: unchanged, replaced, or refused with the difference."""
        there = Dataset.open(self.path)
        difference = self._difference(there.stage, there.recipe, there.manifest.inputs)
        if difference is None:
            self.unchanged = there
            self._tidy()
        elif not self.overwrite:
            raise OutputError(
                f"another dataset is here: {difference}",
                where=str(self.path),
                hint="use --overwrite to replace it, or another -o",
            )
        else:
            self._refuse_foreign(there)
            self._stand_beside()

    def _tidy(self) -> None:
        """Remove what a run left that was killed between its commit and its end."""
        for folder in (self.path / WORK, self._beside):
            if folder.exists():
                remove_tree(folder)

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f".{self.path.name}.new")

    def _stand_beside(self) -> None:
        self._target = self._beside
        if (self._target / MANIFEST).exists():
            remove_tree(self._target)
        make_folder(self._target)
        self._locks.take(self._target)

    def replace(self) -> None:
        """Make the dataset anew although one of the same recipe and listed inputs is here (a file's bytes changed).

        Raises:
            OutputError: without --overwrite.
        """
        assert self.unchanged is not None
        there, self.unchanged = self.unchanged, None
        if not self.overwrite:
            raise OutputError(
                "a dataset is here that was made from other bytes of the same input files",
                where=str(self.path),
                hint="use --overwrite to replace it, or another -o",
            )
        self._refuse_foreign(there)
        self._stand_beside()
        self._begin()

    def _difference(self, stage: str, recipe: Mapping[str, Any], inputs: Sequence[str]) -> str | None:
        if stage != self.stage:
            return f"made by {stage}, not by {self.stage}"
        different = first_difference(recipe, self.recipe)
        if different is not None:
            return different
        if list(inputs) != self.inputs:
            before, now = set(inputs), set(self.inputs)
            gone, new = sorted(before - now), sorted(now - before)
            return f"inputs differ (before: {', '.join(gone[:3]) or 'the same'}; now: {', '.join(new[:3]) or 'fewer'})"
        return None

    def _refuse_foreign(self, there: Dataset) -> None:
        known = {MANIFEST, LOCK, EXCLUSIONS, *listed_files(there.manifest)}
        for file in sorted(self.path.rglob("*")):
            name = file.relative_to(self.path).as_posix()
            if not file.is_dir() and name not in known and not name.startswith((WORK + "/", CACHE + "/")):
                raise OutputError(
                    f"the folder holds {name}, which is not of the dataset; nothing was replaced",
                    where=str(self.path),
                    hint="move it away, or choose another -o",
                )

    def _meet_folder(self) -> None:
        """No manifest: an unfinished run of ours, an empty folder, or somebody else's."""
        names = {child.name for child in self.path.iterdir()} - {LOCK}
        if names and WORK not in names:
            raise OutputError(
                f"the folder is not empty and holds no dataset ({min(names)})",
                where=str(self.path),
                hint="choose another -o",
            )

    def _begin(self) -> None:
        """Make or continue `.work` of the target."""
        work = self._target / WORK
        begun = _read_stage(work / "stage.json")
        if begun is not None:
            difference = self._difference(begun["stage"], begun["recipe"], begun["inputs"])
            if difference is None:
                self.receipts = read_receipts(work / "receipts", self._target)
            elif self.overwrite:
                begun = None
            else:
                raise OutputError(f"an unfinished run is here: {difference}", where=str(self.path), hint=_GO_ON)
        if begun is None:
            # .work goes last: while it is there, what is left of the run is known to be ours.
            for name in ("shards", "tables", "provenance", WORK):
                if (self._target / name).exists():
                    remove_tree(self._target / name)
            make_folder(work / "receipts")
            make_folder(work / "parts")
            stage = {"stage": self.stage, "recipe": self.recipe, "inputs": self.inputs}
            write_durably(work / "stage.json", canonical_json(stage), scratch=work)
        scratch = work / "tmp"
        if scratch.exists():
            remove_tree(scratch)
        make_folder(scratch)

    # ------------------------------------------------------------------ units
    def unit(self, index: int, name: str, *, shards: str, shard_size: int, split: str = "all") -> UnitWriter:
        """Begin a unit: the `index`-th slice of the input, with shards of its own.

        Args:
            name: names the receipt; letters, digits, `-`, `_`, `.`.
            shards: arrow | tar.
            shard_size: payload bytes at which a shard closes.
        """
        return UnitWriter(
            self._target, index=index, name=name, shards=shards, shard_size=shard_size, split=split, done=self.receipts
        )

    @property
    def target(self) -> Path:
        """The folder that units are written into: a new one beside the output where that is to be replaced."""
        return self._target

    @property
    def scratch(self) -> Path:
        """A folder for what the stage need not keep; emptied when a run begins, removed by the commit."""
        return self._target / WORK / "tmp"

    def drop(self, name: str) -> None:
        """Forget a unit that a killed run finished, because its input is another now."""
        with output_errors(self._target):
            (self._target / WORK / "receipts" / f"{name}.json").unlink()
        del self.receipts[name]

    # ------------------------------------------------------------------ commit
    def commit(self, sealed: Sealed) -> Dataset:
        """Write tables and manifest; returns the committed dataset.

        Raises:
            SourceError: where read is not kept + excluded.
        """
        if not sealed.tally.balanced:
            raise SourceError(
                f"rows are lost: read {sealed.tally.read}, kept {sealed.tally.kept}, excluded {sum(sealed.tally.excluded.values())}",
                where=str(self.path),
                hint="this is a fault of shardkit; please report it with the command line",
            )
        work = self._target / WORK
        receipts = [receipt for _, receipt in sorted(self.receipts.items(), key=lambda item: item[1].index)]
        split_order = {split: place for place, split in enumerate(sealed.splits)}
        receipts.sort(key=lambda receipt: (split_order[receipt.split], receipt.index))
        merge = Merge(self._target, receipts, first_shard=len(sealed.shards))
        examples = tuple(shard for receipt in receipts for shard in receipt.shards if shard.format != "sequences")
        sequences = tuple(shard for receipt in receipts for shard in receipt.shards if shard.format == "sequences")

        tables: list[TableEntry] = []
        table_files: dict[str, dict[str, Any]] = {}
        for name, schema, parts in merge.tables(sealed):
            entry, stated = write_table(work / "tmp", self._target, name, schema, parts)
            tables.append(entry)
            table_files[entry.path] = stated
        entry, stated = write_exclusions(work / "tmp", self._target, merge.exclusions(sealed.exclusions))
        tables.append(entry)
        table_files[entry.path] = stated
        files = tuple(self._write_file(name, data) for name, data in sorted((sealed.files or {}).items()))

        locations = {
            dataset_id: self._way_to(folder)
            for dataset_id, folder in sorted({**self._input_places(), **(sealed.locations or {})}.items())
        }
        manifest = Manifest(
            stage=self.stage,
            recipe=self.recipe,
            format_versions={**FORMAT_VERSIONS, **(sealed.format_versions or {})},
            inputs=tuple(self.inputs),
            splits=sealed.splits,
            shards=sealed.shards + examples,
            sequences=sealed.sequences + sequences,
            tables=tuple(tables),
            files=files,
            counts=sealed.tally.to_json(),
            totals=sealed.totals or sum_totals(examples, sequences, merge.by_source),
            report=sealed.report or {},
            produced_by={
                "shardkit": __version__,
                "python": platform.python_version(),
                "pyarrow": pa.__version__,
                "seconds": round(time.monotonic() - self._started, 3),
                "table_files": table_files,
            },
            locations=locations,
        )
        self._sweep(manifest)
        return self._publish(manifest)

    def _way_to(self, folder: Path) -> str:
        """The path of an input from the output; by the link that names it where what it leads to is no UTF-8."""
        way = os.path.relpath(folder.resolve(), self.path.resolve())
        if not is_text(way):
            way = os.path.relpath(os.path.abspath(folder), self.path.resolve())
        return Path(way).as_posix()

    def _input_places(self) -> dict[str, Path]:
        """Where the input datasets lie, so that accounts and traces can go back to them."""
        found = ((id_of(place), place) for place in self._protected)
        return {dataset_id: place for dataset_id, place in found if dataset_id in self.inputs}

    def _write_file(self, name: str, data: bytes) -> FileEntry:
        final = self._target / name
        make_folder(final.parent)
        if final.exists():
            with output_errors(final):
                final.unlink()
        digest = write_durably(final, data, scratch=self._target / WORK / "tmp")
        return FileEntry(path=name, size=len(data), xxh3=digest)

    def _sweep(self, manifest: Manifest) -> None:
        """Remove shards that a killed run published and nobody names."""
        known = set(listed_files(manifest))
        for name in ("shards", "tables", "provenance"):
            for file in (self._target / name).rglob("*"):
                if file.is_file() and file.relative_to(self._target).as_posix() not in known:
                    with output_errors(file):
                        file.unlink()
        for folder in sorted((self._target / "shards").rglob("*"), reverse=True):
            if folder.is_dir() and not any(folder.iterdir()):
                with output_errors(folder):
                    folder.rmdir()

    def _publish(self, manifest: Manifest) -> Dataset:
        work = self._target / WORK
        # The manifest is written last, so its existence means that everything it names is whole and on disk.
        write_durably(self._target / MANIFEST, manifest.to_json(), scratch=work / "tmp")
        remove_tree(work)
        if self._target != self.path:
            exchange(self.path, self._target)
            remove_tree(self._target)
        sync_folder(self.path)
        return Dataset.open(self.path)


def _read_stage(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    body: dict[str, Any] = orjson.loads(file.read_bytes())
    return body
