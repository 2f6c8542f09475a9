"""`shardkit export --self-contained`: a dataset together with those whose shards it refers to, in one folder.

    OUT/manifest.json ...        the dataset, of the same id
    OUT/inputs/<id>/...          each dataset that it refers to, whole
    OUT/inputs/<id>/...

Only the places of the inputs change, which are outside the id. The folder can be moved anywhere, and everything that reads
a dataset reads it there: also what a split looks at of removed rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import xxhash

from shardkit.engine import Progress, silent
from shardkit.errors import IntegrityError
from shardkit.records.manifest import listed_files
from shardkit.store.dataset import Dataset
from shardkit.store.files import DurableFile, make_folder, sync_folder
from shardkit.store.folder import AtomicFolder
from shardkit.store.lock import LOCK
from shardkit.store.manifest_file import MANIFEST

INPUTS = "inputs"
_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfContainedConfig:
    dataset: Path
    output: Path | None
    """None with dry_run."""
    bases: tuple[Path, ...] = ()
    overwrite: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfContainedResult:
    path: Path | None
    dataset_id: str
    num_inputs: int
    """Datasets that it refers to."""
    num_files: int
    num_bytes: int
    unchanged: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "dataset": None if self.path is None else str(self.path),
            "id": self.dataset_id,
            "unchanged": self.unchanged,
            "inputs": self.num_inputs,
            "files": self.num_files,
            "bytes": self.num_bytes,
        }


def run(config: SelfContainedConfig, on_progress: Progress = silent) -> SelfContainedResult:
    """Copy a dataset with everything that it refers to; or find the copy there; or only count (dry run).

    Raises:
        IntegrityError: where a file is missing or damaged.
        OutputError: where something else is at the output.
    """
    dataset = Dataset.open(config.dataset, base=config.bases)
    held = _held(dataset)
    files = [(below, one, name) for below, one in held.items() for name in _names(one)]
    sizes = [(one.path / name).stat().st_size for _, one, name in files if (one.path / name).is_file()]
    result = SelfContainedResult(
        path=config.output,
        dataset_id=dataset.id,
        num_inputs=len(held) - 1,
        num_files=len(files) + len(held),
        num_bytes=sum(sizes),
    )
    if config.dry_run or config.output is None:
        return replace(result, path=None)
    known = {f"{below}{name}" for below, one, name in files} | {f"{below}{MANIFEST}" for below in held}
    with _Copy(config.output, dataset=dataset, names=known, held=held, overwrite=config.overwrite) as whole:
        if whole.unchanged:
            return replace(result, unchanged=True)
        done = 0
        for below, one, name in files:
            done += _copy(one, name, whole.new / f"{below}{name}")
            on_progress(done, result.num_bytes, "copying")
        for below, one in sorted(held.items(), reverse=True):  # that of the dataset itself comes last
            _write_manifest(one, held, below, whole.new)
        whole.publish()
    return result


def _held(dataset: Dataset) -> dict[str, Dataset]:
    """Where each dataset goes, below the output -> the dataset itself, and those that hold shards of it."""
    holders = {ref.holder.id: ref.holder for ref in (*dataset.shards, *dataset.sequence_shards)}
    others = {f"{INPUTS}/{name}/": one for name, one in sorted(holders.items()) if name != dataset.id}
    return {"": dataset, **others}


def _names(dataset: Dataset) -> Iterator[str]:
    """Files of a dataset but its manifest."""
    yield from dict.fromkeys(listed_files(dataset.manifest))


class _Copy(AtomicFolder):
    """The folder of a copy.

    Args:
        names: every file of the copy.
        held: what `_held` gives.
    """

    def __init__(
        self, path: Path, *, dataset: Dataset, names: set[str], held: dict[str, Dataset], overwrite: bool
    ) -> None:
        super().__init__(path, protected=[one.path for one in held.values()], overwrite=overwrite)
        self._dataset = dataset
        self._names = names

    def is_ours(self, folder: Path) -> bool:
        """A dataset whose inputs lie in it, or that has none."""
        if not (folder / MANIFEST).is_file():
            return False
        manifest = Dataset.open(folder, check_id=False).manifest
        return all(entry.dataset is None or _inside(manifest.locations.get(entry.dataset)) for entry in manifest.shards)

    def difference(self) -> str | None:
        there = Dataset.open(self.path)
        if there.id != self._dataset.id:
            return f"a copy of the dataset {there.id[:16]}"
        missing = sorted(name for name in self._names if not (self.path / name).is_file())
        return f"and {missing[0]} is not in it" if missing else None

    def is_known(self, name: str) -> bool:
        return name in self._there

    @cached_property
    def _there(self) -> set[str]:
        """The files of the copy that is there."""
        inputs = sorted((self.path / INPUTS).glob("*"))
        folders = ["", *(f"{INPUTS}/{one.name}/" for one in inputs if (one / MANIFEST).is_file())]
        return {
            f"{below}{name}"
            for below in folders
            for name in (MANIFEST, LOCK, *listed_files(Dataset.open(self.path / below, check_id=False).manifest))
        }


def _inside(place: str | None) -> bool:
    return place is not None and place.startswith(f"{INPUTS}/")


def _write_manifest(one: Dataset, held: dict[str, Dataset], below: str, new: Path) -> None:
    """The manifest of a copied dataset: the same but for where its inputs lie, as far as they are in the copy."""
    up = "../" * below.count("/")
    places = {other.id: f"{up}{place}".rstrip("/") for place, other in held.items() if place and other is not one}
    wanted = {entry.dataset for entry in (*one.manifest.shards, *one.manifest.sequences)} | set(one.manifest.inputs)
    manifest = replace(one.manifest, locations={name: place for name, place in places.items() if name in wanted})
    make_folder(new / below)
    with DurableFile(new / below / MANIFEST) as file:
        file.write(manifest.to_json())
    sync_folder(new / below)


def _copy(dataset: Dataset, name: str, target: Path) -> int:
    """A durable copy of a file, compared with what the manifest says of it; returns its size in bytes."""
    stated = _stated(dataset, name)
    source = dataset.path / name
    digest = xxhash.xxh3_128()
    make_folder(target.parent)
    with DurableFile(target) as file:
        try:
            with source.open("rb") as handle:
                while block := handle.read(_BLOCK):
                    digest.update(block)
                    file.write(block)
        except OSError as error:
            raise IntegrityError(
                f"the file cannot be read ({error.strerror})",
                where=str(source),
                hint="restore it, or build the dataset again",
            ) from error
        if digest.hexdigest() != stated:
            raise IntegrityError(
                f"digest is xxh3:{digest.hexdigest()}, the manifest says xxh3:{stated}",
                where=str(source),
                hint="restore the file, or build the dataset again from its inputs",
            )
    sync_folder(target.parent)
    return file.size


def _stated(dataset: Dataset, name: str) -> str:
    """The digest that the manifest has for a file of its own."""
    manifest = dataset.manifest
    for shard in (*manifest.shards, *manifest.sequences):
        if shard.dataset is None and name == shard.path:
            return shard.xxh3
        if shard.dataset is None and name == f"{shard.path}.index.arrow" and shard.index_xxh3 is not None:
            return shard.index_xxh3
    for file in manifest.files:
        if file.path == name:
            return file.xxh3
    digest: str = manifest.produced_by["table_files"][name]["xxh3"]
    return digest
