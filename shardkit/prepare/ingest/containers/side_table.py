"""Tables that img2dataset writes beside its archives: 00000.parquet beside 00000.tar, with a row for each address tried.

Its rows are no records: a record is a sample of the archive. What a row says of a sample (status, sha256, sizes,
similarity, NSFW) goes with the sample; rows of fetches that failed are counted. One table for all archives of a folder
serves as well, where it has the columns `key` and `url`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardkit.errors import SourceError
from shardkit.prepare.ingest.containers.batch_rows import Row, rows
from shardkit.prepare.ingest.reasons import Bad
from shardkit.prepare.ingest.units import InputFile

_KEY, _STATUS = "key", "status"
_SUFFIX = ".parquet"
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.bz2")
_BATCH = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """What the tables say of the samples of one archive."""

    by_key: Mapping[str, Mapping[str, Any]]
    changes: Counter[str] = field(default_factory=Counter)
    """side_table_row: rows of samples; side_table_failed: rows of fetches that failed; side_table_other: rows of
    fetches that went well, without a sample; side_table_key_twice and side_table_row_unreadable: rows that were passed
    over."""


class Folders:
    """The folders that archives lie in, each looked at once: a dump has thousands of archives in one."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._shared: dict[str, list[str]] = {}

    def tables_beside(self, archive: InputFile) -> tuple[InputFile, ...]:
        """The tables of an archive: that of its own name, else those of its folder that belong to no other archive."""
        folder, name = os.path.split(archive.path)
        if folder not in self._names:
            self._names[folder] = frozenset(os.listdir(folder))
        own = f"{_stem(name)}{_SUFFIX}"
        if own in self._names[folder]:
            found = [own] if _is_plain_file(os.path.join(folder, own)) else []
        else:
            found = self._of_all(folder)
        above = archive.name.rpartition("/")[0]
        return tuple(
            InputFile(name=f"{above}/{one}" if above else one, path=path, size=os.path.getsize(path))
            for one in found
            for path in [os.path.join(folder, one)]
        )

    def _of_all(self, folder: str) -> list[str]:
        """The tables in a folder that are of no archive of their name and have the columns to say of which they are."""
        if folder not in self._shared:
            stems = {_stem(name) for name in self._names[folder] if name.endswith(_ARCHIVES)}
            paths = {
                name: os.path.join(folder, name)
                for name in sorted(self._names[folder])
                if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) not in stems
            }
            self._shared[folder] = [n for n, path in paths.items() if _is_plain_file(path) and _has_columns(path)]
        return self._shared[folder]


def _is_plain_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def _stem(name: str) -> str:
    return next(
        (name[: -len(suffix)] for suffix in sorted(_ARCHIVES, key=len) if name.endswith(suffix)), name
    ).removesuffix(".tar")


def _has_columns(path: str) -> bool:
    try:
        return {_KEY, "url"} <= set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return False


def read(archive: InputFile, keys: Collection[str], *, salvage: bool) -> Rows:
    """The rows of the tables beside `archive` that belong to samples of these keys.

    Raises:
        SourceError: where a table cannot be read, unless `salvage` is set.
    """
    by_base = {key.rpartition("/")[2]: key for key in keys}
    by_key: dict[str, Mapping[str, Any]] = {}
    changes: Counter[str] = Counter()
    for table in archive.beside:
        is_own = table.name.rpartition("/")[2].removesuffix(_SUFFIX) == _stem(archive.name.rpartition("/")[2])
        try:
            for row in _rows(table):
                if isinstance(row, Bad):
                    changes["side_table_row_unreadable"] += 1
                    continue
                stated = str(row.get(_KEY))
                key = stated if stated in keys else by_base.get(stated)
                if key is None:
                    # A table of many archives holds the rows of the others too: only their own failures can be told.
                    if is_own:
                        changes[
                            "side_table_failed" if row.get(_STATUS) not in (None, "success") else "side_table_other"
                        ] += 1
                elif key in by_key:
                    changes["side_table_key_twice"] += 1
                else:
                    by_key[key] = {name: value for name, value in row.items() if value is not None}
                    changes["side_table_row"] += 1
        except (pa.ArrowException, OSError) as error:
            if not salvage:
                raise SourceError(
                    f"the table beside {archive.name} cannot be read: {error}",
                    where=table.name,
                    hint="write or fetch it again, move it away, or go on without it by --salvage",
                ) from error
            changes["side_table_unreadable"] += 1
    return Rows(by_key=by_key, changes=changes)


def _rows(table: InputFile) -> Iterator[Row | Bad]:
    with pq.ParquetFile(table.path) as parquet:
        if _KEY not in parquet.schema_arrow.names:
            return
        for batch in parquet.iter_batches(batch_size=_BATCH, use_threads=False):
            yield from rows(batch)
