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
import pyarrow.compute as pc
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
        self._shared: dict[str, tuple[InputFile, ...]] = {}

    def tables_beside(self, archive: InputFile) -> tuple[InputFile, ...]:
        """The tables of an archive: that of its own name, else those of its folder that belong to no other archive."""
        folder, name = os.path.split(archive.path)
        if folder not in self._names:
            self._names[folder] = frozenset(os.listdir(folder))
        own = f"{_stem(name)}{_SUFFIX}"
        if own in self._names[folder]:
            return (_beside(archive, own),) if _is_plain_file(os.path.join(folder, own)) else ()
        if folder not in self._shared:
            self._shared[folder] = tuple(_beside(archive, name) for name in self._of_all(folder))
        return self._shared[folder]

    def _of_all(self, folder: str) -> Iterator[str]:
        """The tables in a folder that are of no archive of their name and have the columns to say of which they are."""
        stems = {_stem(name) for name in self._names[folder] if name.endswith(_ARCHIVES)}
        for name in sorted(self._names[folder]):
            path = os.path.join(folder, name)
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) not in stems and _is_plain_file(path) and _has_columns(path):  # fmt: skip
                yield name


def _beside(archive: InputFile, name: str) -> InputFile:
    above = archive.name.rpartition("/")[0]
    path = os.path.join(os.path.dirname(archive.path), name)
    return InputFile(name=f"{above}/{name}" if above else name, path=path, size=os.path.getsize(path))


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
            for row in _rows(table, None if is_own else {*keys, *by_base}):
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


def _rows(table: InputFile, keys: Collection[str] | None) -> Iterator[Row | Bad]:
    """The rows of a table; with `keys` those of one of them alone, found by a look at their column."""
    with pq.ParquetFile(table.path) as parquet:
        if _KEY not in parquet.schema_arrow.names:
            return
        kind = parquet.schema_arrow.field(_KEY).type
        known = None
        if keys is not None and (
            pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
        ):
            known = pa.array(keys, pa.string())
        for group in range(parquet.num_row_groups):
            wanted = None
            if known is not None:
                column = parquet.read_row_group(group, columns=[_KEY], use_threads=False).column(0)
                wanted = pc.is_in(column.cast(pa.string()), value_set=known)
                if not pc.any(wanted).as_py():
                    continue
            place = 0
            for batch in parquet.iter_batches(batch_size=_BATCH, row_groups=[group], use_threads=False):
                mask = None if wanted is None else wanted.slice(place, batch.num_rows).combine_chunks()
                place += batch.num_rows
                yield from rows(batch if mask is None else batch.filter(mask))
