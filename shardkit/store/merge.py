"""The tables of a dataset at its commit: parts of the units joined, and what the stage adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from shardkit.digest import canonical_json
from shardkit.records import Exclusion, Tally
from shardkit.records.manifest import ShardEntry, TableEntry, Totals
from shardkit.store.files import DurableFile, make_folder, output_errors, publish, sync_folder
from shardkit.store.receipts import Receipt
from shardkit.store.schema import PROVENANCE
from shardkit.store.tables import EXCLUSIONS, known_schema, replace_column, row_lines, table_path

_ROW_GROUP = 16_384
"""Rows of a table that are read together: a look-up of one row reads as many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sealed:
    """What a stage adds to the manifest at the commit."""

    tally: Tally
    splits: tuple[str, ...] = ("all",)
    shards: tuple[ShardEntry, ...] = ()
    """Referenced shards of a view; the shards of units follow them."""
    sequences: tuple[ShardEntry, ...] = ()
    """The same for shards of sequences."""
    tables: Mapping[str, Iterable[pa.Table]] | None = None
    """Tables that are made at the end; rows of units of the same name come first. A value may be a generator."""
    provenance: Iterable[pa.Table] = ()
    exclusions: Iterable[Exclusion] = ()
    files: Mapping[str, bytes] | None = None
    """Further files: relative path -> content."""
    locations: Mapping[str, Path] | None = None
    """Dataset id -> folder of each dataset that a view refers to."""
    totals: Mapping[str, Mapping[str, Totals]] | None = None
    """by_split and by_source, where they are not those of the units' shards (a view that selects rows)."""
    report: Mapping[str, Any] | None = None
    format_versions: Mapping[str, Any] | None = None


class Merge:
    """Joins the table parts of the units, in unit order."""

    def __init__(self, target: Path, receipts: Sequence[Receipt], *, first_shard: int) -> None:
        self._target = target
        self._receipts = receipts
        self._first_shard = first_shard
        self.by_source: dict[str, Counter[str]] = {}
        for receipt in receipts:
            for source, totals in receipt.by_source.items():
                self.by_source.setdefault(source, Counter()).update(totals)

    def tables(self, sealed: Sealed) -> Iterator[tuple[str, pa.Schema, Iterator[pa.Table]]]:
        """(name, schema, tables) of everything to write, by name."""
        extra = sealed.tables or {}
        names = sorted(
            {*("examples", "assets", "rows"), *extra, *(name for r in self._receipts for name in r.parts)}
            - {"exclusions", "provenance"}
        )
        for name in names:
            parts = self._joined(name, extra.get(name, ()))
            if name == "assets":
                parts = _unique_assets(parts)
            first, parts = _peek(parts)
            yield name, known_schema(name, first.schema), parts
        yield "provenance", PROVENANCE, self._joined("provenance", sealed.provenance)

    def _joined(self, name: str, extra: Iterable[pa.Table]) -> Iterator[pa.Table]:
        shard = self._first_shard
        for receipt in self._receipts:
            table = receipt.part(self._target, name)
            if table is not None:
                if name == "examples":
                    numbers = pc.add(table["shard_index"], pa.scalar(shard, pa.int32()))
                    table = replace_column(table, "shard_index", numbers)
                yield table
            shard += sum(entry.format != "sequences" for entry in receipt.shards)
        yield from extra

    def exclusions(self, extra: Iterable[Exclusion]) -> Iterator[bytes]:
        for receipt in self._receipts:
            yield from receipt.exclusions(self._target)
        for exclusion in extra:
            yield canonical_json(asdict(exclusion))


def _peek(parts: Iterator[pa.Table]) -> tuple[pa.Table, Iterator[pa.Table]]:
    first = next(parts, None)
    if first is None:
        return pa.table({}), iter(())

    def again() -> Iterator[pa.Table]:
        yield first
        yield from parts

    return first, again()


def _unique_assets(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The first row of each (asset, frame)."""
    seen: set[bytes] = set()
    for table in parts:
        keep = []
        for asset_id, frame in zip(table["asset_id"].to_pylist(), table["frame"].to_pylist(), strict=True):
            key = bytes.fromhex(asset_id)[:16] + frame.to_bytes(4, "little")
            keep.append(key not in seen)
            seen.add(key)
        yield table.filter(pa.array(keep, pa.bool_()))


def write_table(
    scratch: Path, target: Path, name: str, schema: pa.Schema, parts: Iterator[pa.Table]
) -> tuple[TableEntry, dict[str, Any]]:
    final = target / table_path(name)
    make_folder(final.parent)
    temporary = scratch / f"{name}.parquet"
    digest = xxhash.xxh3_128()
    rows = 0
    with DurableFile(temporary) as file:
        with pq.ParquetWriter(pa.PythonFile(file, mode="w"), schema, compression="zstd") as writer:
            for table in _regrouped(parts):
                for line in row_lines(table):
                    digest.update(line)
                    digest.update(b"\n")
                rows += table.num_rows
                writer.write_table(table.cast(schema), row_group_size=_ROW_GROUP)
        stated = {"size": file.size, "xxh3": file.xxh3}
    _replace(temporary, final)
    return TableEntry(path=final.relative_to(target).as_posix(), rows=rows, rows_xxh3=digest.hexdigest()), stated


def _regrouped(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of about one row group, so that many small units do not make many small groups."""
    waiting: list[pa.Table] = []
    for table in parts:
        waiting.append(table)
        if sum(t.num_rows for t in waiting) >= _ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def write_exclusions(scratch: Path, target: Path, lines: Iterator[bytes]) -> tuple[TableEntry, dict[str, Any]]:
    final = target / EXCLUSIONS
    temporary = scratch / final.name
    digest = xxhash.xxh3_128()
    rows = 0
    with DurableFile(temporary) as file:
        with pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), "zstd") as stream:
            for line in lines:
                digest.update(line)
                digest.update(b"\n")
                stream.write(line + b"\n")
                rows += 1
        stated = {"size": file.size, "xxh3": file.xxh3}
    _replace(temporary, final)
    return TableEntry(path=final.name, rows=rows, rows_xxh3=digest.hexdigest()), stated


def _replace(temporary: Path, final: Path) -> None:
    """Publish over what a run killed during the merge left; no manifest names it."""
    with output_errors(final):
        final.unlink(missing_ok=True)
    publish(temporary, final)
    sync_folder(final.parent)


def sum_totals(
    shards: Sequence[ShardEntry], sequences: Sequence[ShardEntry], by_source: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, Totals]]:
    by_split: dict[str, Counter[str]] = {}
    for shard in sequences or shards:
        by_split.setdefault(shard.split, Counter()).update(shard.counts)
    return {
        "by_split": {split: dict(sorted(totals.items())) for split, totals in sorted(by_split.items())},
        "by_source": {source: dict(sorted(totals.items())) for source, totals in sorted(by_source.items())},
    }
