"""mds: folders that MosaicML's `MDSWriter` wrote: index.json and its shards, a folder a split or one for all.

SET/index.json  SET/shard.00000.mds          one set
SET/train/index.json  SET/test/index.json    a split each
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardkit.errors import SourceError
from shardkit.prepare.import_.found import Found, files_below, split_of
from shardkit.prepare.ingest.containers.mds import INDEX, read_index
from shardkit.prepare.ingest.units import InputFile


def find(path: Path) -> Iterator[Found]:
    """The shards of a set, those that are unpacked before those that are not.

    Raises:
        SourceError: where there is no index, or a shard that it lists is missing.
    """
    if path.is_file():
        yield Found(path=path)
        return
    indexes = (
        [path / INDEX] if (path / INDEX).is_file() else [f for f in files_below(path, (INDEX,)) if f.name == INDEX]
    )
    if not indexes:
        raise SourceError(f"there is no {INDEX} here", where=str(path), hint="name a folder that MDSWriter wrote")
    for index in indexes:
        below = index.parent.relative_to(path).as_posix()
        size = os.path.getsize(index)
        shards = read_index(InputFile(name=str(index), path=str(index), size=size))
        for shard in shards:
            file = _file(shard, index)
            named = split_of(f"{file.relative_to(path).as_posix()}")
            yield Found(path=file, split=named or (None if below == "." else below))


def _file(shard: dict[str, Any], index: Path) -> Path:
    """The file of a shard that is there."""
    names: list[str] = [shard[part]["basename"] for part in ("raw_data", "zip_data") if shard[part]]
    for name in names:
        if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
            raise SourceError(
                f"it lists {name}, which leads out of the set", where=str(index), hint="fetch the set again"
            )
        if (index.parent / name).is_file():
            return index.parent / name
    raise SourceError(f"it lists {names[0]}, which is not there", where=str(index), hint="fetch the set whole")
