"""webdataset: tars of samples, plain or compressed; the split is in the name of the tar or of its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shardkit.errors import SourceError
from shardkit.prepare.import_.found import Found, files_below, split_of

_SUFFIXES = (".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.bz2")


def find(path: Path) -> Iterator[Found]:
    """The tars of a set.

    Raises:
        SourceError: where there is none.
    """
    found = [
        Found(path=file, split=split_of(file.relative_to(path).as_posix() if path.is_dir() else file.name))
        for file in files_below(path, _SUFFIXES)
    ]
    if not found:
        raise SourceError("there is no tar here", where=str(path), hint="name tars, or a folder of tars")
    yield from found
