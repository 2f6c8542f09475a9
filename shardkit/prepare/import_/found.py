"""A file of a prepared set, and how the names of files tell their splits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shardkit.errors import SourceError

_KNOWN = ("train", "training", "validation", "valid", "val", "dev", "test", "testing", "eval", "evaluation")
_NAMED = re.compile(rf"({'|'.join(_KNOWN)})(?:[-_.\d]|$)", re.IGNORECASE)
_NUMBERED = re.compile(r"(\w[\w.]*?)-\d{5}-of-\d{5}")
"""train-00000-of-00004.parquet, as sharded files are named."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    path: Path
    split: str | None = None
    """As the set calls it; None where it does not say."""


def split_of(name: str) -> str | None:
    """The split that a path below the set tells: its file's name, else the innermost folder that is called like one.

    data/train-00000-of-00004.parquet    train
    val/0001.tar                         val
    """
    *folders, file = name.split("/")
    match = _NUMBERED.match(file) or _NAMED.match(file)
    if match:
        return match[1]
    return next((folder for folder in reversed(folders) if folder.lower() in _KNOWN), None)


def files_below(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """The file at `path`, or the files below it whose names end so, in order; hidden ones are passed over.

    Raises:
        SourceError: where there is nothing.
    """
    if not path.exists():
        raise SourceError("there is nothing here", where=str(path), hint="check the path")
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(suffixes) and not name.startswith("."):
                yield Path(folder, name)
