"""A folder of files that is no dataset, such as an export: made beside its place, and renamed when it is whole.

    OUT         what was there, untouched, until the new folder takes its place in one step
    .OUT.new    where it is made; a killed run leaves it, and the next one begins it again

What makes a folder of files ours is its note: JSON that says what it was made from and lists what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import orjson

from shardkit.digest import canonical_json
from shardkit.errors import OutputError
from shardkit.store.files import (
    DurableFile,
    exchange,
    make_folder,
    output_errors,
    remove_tree,
    sync_folder,
    write_durably,
)
from shardkit.store.lock import LOCK, Locks
from shardkit.store.place import place_of_output

_BEGUN = ".begun"
"""In a folder that is being made: whatever else is missing, it is ours."""
_BY_CONTENT = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}\.[a-z0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderFile:
    path: str
    """Relative to the folder, with `/`."""
    size: int
    sha256: str


class HashedFile(DurableFile):
    """A durable file that is also known by its sha256, the digest that other tools compare."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._sha256 = hashlib.sha256()
        make_folder((folder / name).parent)
        super().__init__(folder / name)

    def __enter__(self) -> HashedFile:
        return self

    def write(self, data: bytes | memoryview) -> int:
        self._sha256.update(data)
        return super().write(data)

    def facts(self) -> FolderFile:
        """What is to be listed of the file, once it is closed."""
        return FolderFile(path=self.name, size=self.size, sha256=self._sha256.hexdigest())


def write_by_content(folder: Path, sha256: str, extension: str, data: bytes) -> tuple[str, bool]:
    """A file named by its content, in a folder of the first two digits; one that is there is not written again.

    It is not synced by itself: `Folder.commit` does that for all of them.

    Returns:
        Its name below `folder`, and whether it is new.
    """
    name = f"{sha256[:2]}/{sha256}{extension}"
    path = folder / name
    with output_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return name, False
        with open(descriptor, "wb") as file:
            file.write(data)
    return name, True


Made = TypeVar("Made", bound="AtomicFolder")


class AtomicFolder(ABC):
    """A folder that appears whole or not at all; use it as a context manager.

    Args:
        path: where it is to stand.
        protected: folders that the output may not hold and may not lie in.
        overwrite: replace a folder of ours that is there.

    Attributes:
        unchanged: an equal folder is there already, and nothing is to be done.
        new: where files are to be written; the folder exists.

    Raises:
        OutputError: where something else is there, another run is at it, or it cannot be written.
    """

    def __init__(self, path: Path, *, protected: Sequence[Path] = (), overwrite: bool = False) -> None:
        self.path = place_of_output(path, protected)
        self.new = self.path.with_name(f".{self.path.name}.new")
        self.unchanged = False
        self._overwrite = overwrite
        self._locks = Locks()

    # What kind of folder it is.
    @abstractmethod
    def is_ours(self, folder: Path) -> bool:
        """Whether a folder that is not empty is one that was made in this way."""

    @abstractmethod
    def difference(self) -> str | None:
        """What is different about the folder of ours that is there; None where it is the same."""

    @abstractmethod
    def is_known(self, name: str) -> bool:
        """Whether a file of the folder that is there belongs to it."""

    # ------------------------------------------------------------------ what is there
    def __enter__(self: Made) -> Made:  # noqa: PYI019 - typing.Self is younger than Python 3.10
        if self.path.exists() and not self.path.is_dir():
            raise OutputError("a file is here", where=str(self.path), hint="choose another place with -o")
        if self.path.exists() and any(self.path.iterdir()):
            if not self.is_ours(self.path):
                raise OutputError(
                    "the folder is not empty, and it is nothing that this command wrote",
                    where=str(self.path),
                    hint="choose another -o",
                )
            difference = self.difference()
            self.unchanged = difference is None
            if difference is not None:
                self._refuse(difference)
        if not self.unchanged:
            try:
                self._begin()
            except BaseException:
                self._locks.release()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None and issubclass(kind, Exception) and (self.new / _BEGUN).exists():
                remove_tree(self.new)
        finally:
            self._locks.release()

    def _refuse(self, difference: str) -> None:
        """Say what differs, unless a folder that holds nothing foreign is to be replaced."""
        if not self._overwrite:
            raise OutputError(
                f"another one is here, {difference}",
                where=str(self.path),
                hint="use --overwrite to replace it, or another -o",
            )
        for name in _names(self.path):
            if not self.is_known(name):
                raise OutputError(
                    f"the folder holds {name}, which is not of it; nothing was replaced",
                    where=str(self.path),
                    hint="move it away, or choose another -o",
                )

    # ------------------------------------------------------------------ making it
    def _begin(self) -> None:
        if self.new.exists() and not ((self.new / _BEGUN).exists() or self.is_ours(self.new)):
            raise OutputError(
                "a folder of this name is in the way of the work, and it is not ours",
                where=str(self.new),
                hint="move it away, or choose another -o",
            )
        make_folder(self.new)
        self._locks.take(self.new)
        for child in sorted(self.new.iterdir()):
            if child.name == LOCK:
                continue
            if child.is_dir():
                remove_tree(child)
            else:
                with output_errors(child):
                    child.unlink()
        with DurableFile(self.new / _BEGUN):
            pass

    def publish(self) -> None:
        """Put the folder in its place, in one step; everything in it is on disk."""
        there = self.path.exists() and any(self.path.iterdir())
        if there and not self._overwrite:
            raise OutputError(
                "something was put here while the work was done", where=str(self.path), hint="choose another -o"
            )
        for name in (_BEGUN, LOCK):
            with output_errors(self.new):
                (self.new / name).unlink()
        sync_folder(self.new)
        if there:
            exchange(self.path, self.new)
            remove_tree(self.new)
        else:
            with output_errors(self.path):
                os.rename(self.new, self.path)
        sync_folder(self.path.parent)


class Folder(AtomicFolder):
    """A folder of files with a note that says what it was made from and lists them.

    Args:
        note: name of the note.
        made_from: JSON values; a folder that is there with equal ones is `unchanged`.
        by_content: name of a folder in it whose files are named by their sha256 and not listed one by one.
    """

    def __init__(
        self,
        path: Path,
        *,
        note: str,
        made_from: Mapping[str, Any],
        by_content: str | None = None,
        protected: Sequence[Path] = (),
        overwrite: bool = False,
    ) -> None:
        super().__init__(path, protected=protected, overwrite=overwrite)
        self._note = note
        self._made_from: dict[str, Any] = orjson.loads(canonical_json(dict(made_from)))  # as the note gives it back
        self._by_content = by_content

    @property
    def note(self) -> dict[str, Any]:
        """The note of the folder that is there."""
        found = _read(self.path / self._note)
        assert found is not None, "asked only where the folder is ours"
        return found

    def is_ours(self, folder: Path) -> bool:
        return _read(folder / self._note) is not None

    def difference(self) -> str | None:
        there = self.note
        keys = sorted({*there["made_from"], *self._made_from})
        different = [key for key in keys if there["made_from"].get(key) != self._made_from.get(key)]
        if different:
            return f"made with another {', '.join(different)}"
        files = [(self.path / file["path"], file["size"]) for file in there["files"]]
        whole = all(file.is_file() and file.stat().st_size == size for file, size in files)
        return None if whole else "and files of it are missing or changed"

    def is_known(self, name: str) -> bool:
        there = self.note
        if there["by_content"] is not None and name.startswith(f"{there['by_content']}/"):
            return _BY_CONTENT.fullmatch(name.partition("/")[2]) is not None
        return name == self._note or any(file["path"] == name for file in there["files"])

    def write(self, name: str, data: bytes) -> FolderFile:
        """A small file, whole and durable."""
        with HashedFile(self.new, name) as file:
            file.write(data)
        return file.facts()

    def commit(self, files: Sequence[FolderFile], facts: Mapping[str, Any]) -> dict[str, Any]:
        """Write the note and put the folder in its place; returns the note.

        Args:
            files: everything in the folder that is not named by its content.
            facts: JSON values to keep in the note.
        """
        note = {
            "made_from": self._made_from,
            "files": [asdict(file) for file in sorted(files, key=lambda file: file.path)],
            "by_content": self._by_content,
            **facts,
        }
        if self._by_content is not None:
            os.sync()  # small files by the thousand: synced together, before anything says that they are there
        write_durably(self.new / self._note, canonical_json(note) + b"\n", scratch=self.new)
        self.publish()
        return note


def _names(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        if not file.is_dir():
            yield file.relative_to(folder).as_posix()


def _read(file: Path) -> dict[str, Any] | None:
    """The note in a file; None where it is none."""
    try:
        body = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    shape = {"made_from": dict, "files": list}
    if not isinstance(body, dict) or not all(isinstance(body.get(key), kind) for key, kind in shape.items()):
        return None
    return body if "by_content" in body else None
