"""A folder of files that is no dataset, such as an export: made beside its place, and renamed when it is whole.

    OUT         what was there, untouched, until the new folder takes its place in one step
    .OUT.new    where it is made; a killed run leaves it, and the next one begins it again

What makes a folder ours is its note: a JSON file that says what it was made from and lists what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

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
from shardkit.store.output import keep_apart

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


class Folder:
    """The folder that is made; use it as a context manager.

    Args:
        path: where it is to stand.
        note: name of its note.
        made_from: JSON values that say what it is made of and how: an equal folder that is there is `unchanged`.
        by_content: name of a folder in it whose files are named by their sha256 and not listed one by one.
        protected: folders that the output may not hold and may not lie in.
        overwrite: replace a folder of ours that is there.

    Attributes:
        unchanged: the note of the equal folder that is there already.
        new: where files are to be written; the folder exists.

    Raises:
        OutputError: where something else is there, another run is at it, or it cannot be written.
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
        self.path = Path(os.path.abspath(path))
        self.new = self.path.with_name(f".{self.path.name}.new")
        self.unchanged: dict[str, Any] | None = None
        self._note = note
        self._made_from: dict[str, Any] = orjson.loads(canonical_json(dict(made_from)))  # as the note gives it back
        self._by_content = by_content
        self._overwrite = overwrite
        self._locks = Locks()
        for place in protected:
            keep_apart(self.path, place)

    def __enter__(self) -> Folder:
        there = self._meet()
        if there is not None and there["made_from"] == self._made_from and self._is_whole(there):
            self.unchanged = there
            return self
        if there is not None:
            self._refuse(there)
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

    # ------------------------------------------------------------------ what is there
    def _meet(self) -> dict[str, Any] | None:
        """The note of a folder of ours at the place; None where the place is free."""
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise OutputError("a file is here", where=str(self.path), hint="choose another place with -o")
        if not any(self.path.iterdir()):
            return None
        note = _read(self.path / self._note)
        if note is None:
            raise OutputError(
                f"the folder is not empty and has no {self._note}; it is nothing that this command wrote",
                where=str(self.path),
                hint="choose another -o",
            )
        return note

    def _is_whole(self, note: Mapping[str, Any]) -> bool:
        files = [self.path / file["path"] for file in note["files"]]
        return all(
            file.is_file() and file.stat().st_size == stated["size"]
            for file, stated in zip(files, note["files"], strict=True)
        )

    def _refuse(self, there: Mapping[str, Any]) -> None:
        """Say what differs, unless a folder that holds nothing foreign is to be replaced."""
        if not self._overwrite:
            keys = sorted({*there["made_from"], *self._made_from})
            different = [key for key in keys if there["made_from"].get(key) != self._made_from.get(key)]
            what = (
                f"made with another {', '.join(different)}" if different else "and files of it are missing or changed"
            )
            raise OutputError(
                f"another export is here, {what}",
                where=str(self.path),
                hint="use --overwrite to replace it, or another -o",
            )
        known = {self._note, *(file["path"] for file in there["files"])}
        for name in _names(self.path):
            by_content = there["by_content"] is not None and name.startswith(f"{there['by_content']}/")
            if name not in known and not (by_content and _BY_CONTENT.fullmatch(name.partition("/")[2])):
                raise OutputError(
                    f"the folder holds {name}, which is not of the export; nothing was replaced",
                    where=str(self.path),
                    hint="move it away, or choose another -o",
                )

    # ------------------------------------------------------------------ making it
    def _begin(self) -> None:
        if self.new.exists() and not ((self.new / _BEGUN).exists() or _read(self.new / self._note)):
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
        for name in (_BEGUN, LOCK):
            with output_errors(self.new):
                (self.new / name).unlink()
        sync_folder(self.new)
        if self.path.exists() and any(self.path.iterdir()):
            exchange(self.path, self.new)
            remove_tree(self.new)
        else:
            with output_errors(self.path):
                os.rename(self.new, self.path)
        sync_folder(self.path.parent)
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
