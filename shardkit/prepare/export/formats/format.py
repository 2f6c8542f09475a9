"""What an export format is: one file here, one line in the table of formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shardkit.prepare.export.facts import Facts
from shardkit.prepare.export.row import Exported
from shardkit.store.folder import FolderFile


class Writer(Protocol):
    """Writes the rows of one file, in order."""

    def add(self, one: Exported) -> None: ...

    def close(self) -> FolderFile: ...

    def abandon(self) -> None: ...


def no_files(_facts: Facts) -> Mapping[str, bytes]:
    """A format with nothing beside its data and the card."""
    return {}


def as_it_is(split: str) -> str:
    """The split under the name it has."""
    return split


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    about: str
    """One line of help."""
    open: Callable[[Path, str], Writer]
    """The writer of a file: the folder of the export, and the file's name in it."""
    name: str
    """Of a file, with {split}, {number} and {count} to be filled in."""
    read: str
    """Python or a command that reads the whole, for the card; {path} stands for the folder."""
    by_content: str | None = None
    """Folder of files that are named by their content."""
    split_name: Callable[[str], str] = as_it_is
    """What a split is called in the format."""
    beside: Callable[[Facts], Mapping[str, bytes]] = field(default=no_files)
    """Further files: name -> content."""
    configs: bool = False
    """Whether the card's header lists the files of each split, as Hugging Face datasets reads it."""
