"""Work units of a stage: shards and table parts of one slice of the input; `receipts` says that they are durable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.digest import canonical_json
from shardkit.errors import ConfigError
from shardkit.records import Example, Exclusion, Tally
from shardkit.records.manifest import ShardEntry
from shardkit.store.arrow_shard import SUFFIX as ARROW_SUFFIX
from shardkit.store.arrow_shard import ArrowWriter, TableWriter
from shardkit.store.columns import Rows, to_rows
from shardkit.store.files import make_folder, publish_content, sync_folder
from shardkit.store.receipts import WORK, Receipt, part_file, write_part, write_part_of_lines, write_receipt
from shardkit.store.rows import BLOCK_BYTES, BLOCK_ROWS, Written
from shardkit.store.schema import PROVENANCE, TABLES
from shardkit.store.tables import replace_column
from shardkit.store.tar_shard import INDEX_SUFFIX, TarWriter, index_path
from shardkit.store.tar_shard import SUFFIX as TAR_SUFFIX

SHARD_FORMATS: dict[str, type[ArrowWriter | TarWriter]] = {"arrow": ArrowWriter, "tar": TarWriter}
"""Format -> its writer."""


def check_shards(shards: str, shard_size: int) -> None:
    """Refuse shards that nothing writes.

    Raises:
        ConfigError
    """
    if shards not in SHARD_FORMATS:
        raise ConfigError(f"--shards {shards!r} is none of {', '.join(SHARD_FORMATS)}", hint="choose one")
    if shard_size < 1:
        raise ConfigError("a shard of no bytes", hint="raise --shard-size")


@dataclass(kw_only=True, slots=True)
class _OpenShard:
    writer: ArrowWriter | TarWriter
    temporary: Path
    bytes: int = 0
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    members: list[pa.RecordBatch] = field(default_factory=list)
    """Rows of tables/examples that wait for the shard's name."""


@dataclass(kw_only=True, slots=True)
class _Waiting:
    """Examples that came one by one, up to a block of them."""

    examples: list[Example] = field(default_factory=list)
    places: list[Mapping[str, Any]] = field(default_factory=list)
    assets: list[Mapping[str, Any]] = field(default_factory=list)
    provenance: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    bytes: int = 0
    """Of their pictures."""


class UnitWriter:
    """Writes one unit; made by `Output.unit`, a context manager. Leaving it by an error leaves no receipt."""

    def __init__(
        self, target: Path, *, index: int, name: str, shards: str, shard_size: int, split: str, done: dict[str, Receipt]
    ) -> None:
        self._target = target
        self._scratch = target / WORK / "tmp"
        self._index = index
        self._name = name
        self._format = shards
        self._shard_size = shard_size
        self._split = split
        self._done = done
        self._shards: list[ShardEntry] = []
        self._open: _OpenShard | None = None
        self._waiting = _Waiting()
        self._parts: dict[str, list[pa.RecordBatch]] = {}
        self._schemas: dict[str, pa.Schema] = {**TABLES, "provenance": PROVENANCE}
        self._exclusions: list[bytes] = []
        self._by_source: dict[str, Counter[str]] = {}
        self.tally = Tally()

    def __enter__(self) -> UnitWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._open is not None:
            self._open.writer.abandon()

    # ------------------------------------------------------------------ rows
    def add(
        self,
        example: Example,
        *,
        input: str,  # noqa: A002 - the column's name
        position: str,
        assets: Sequence[Mapping[str, Any]] = (),
        provenance: Sequence[Mapping[str, Any]] = (),
        parent_id: str | None = None,
        marks: Mapping[str, bool | None] | None = None,
    ) -> None:
        """Keep an example: a row of the open shard and of the tables. It counts neither as read nor as kept.

        Args:
            assets: a row of tables/assets for each image, as far as it is known, the rest is null; or none for any example.
            provenance: rows of provenance/provenance.parquet.
            parent_id: the example that this one was made from, where its id changed.
            marks: what was found in its texts: has_email, has_phone; null where nobody looked.
        """
        waiting = self._waiting
        waiting.examples.append(example)
        waiting.places.append({"input": input, "position": position, "parent_id": parent_id, **(marks or {})})
        waiting.assets += assets
        waiting.provenance.append(provenance)
        waiting.bytes += sum(len(image.data) for image in example.images)
        if len(waiting.examples) >= BLOCK_ROWS or waiting.bytes >= BLOCK_BYTES:
            self._take_waiting()

    def extend(self, rows: Rows) -> None:
        """Keep many examples, as `add` does each."""
        self._take_waiting()
        self._extend(rows)

    def _take_waiting(self) -> None:
        waiting, self._waiting = self._waiting, _Waiting()
        if waiting.examples:
            self._extend(
                to_rows(waiting.examples, waiting.places, assets=waiting.assets, provenance=waiting.provenance)
            )

    def _extend(self, rows: Rows) -> None:
        for part in rows.cut(self._borders(rows.sizes)):
            shard = self._open = self._open or self._new_shard()
            for source, totals in _totals(part):
                shard.counts.update(totals)
                self._by_source.setdefault(source, Counter()).update(totals)
            shard.bytes += sum(part.sizes)
            self._write(shard, part)
            if shard.bytes >= self._shard_size:
                self._close_shard()
        self._parts.setdefault("assets", []).append(rows.assets)
        self._parts.setdefault("provenance", []).append(rows.provenance)

    def _borders(self, sizes: Sequence[int]) -> list[int]:
        """Where shards close, from 0 to the number of rows: with the row that fills them."""
        ends = np.cumsum(sizes, dtype=np.int64)
        room = self._shard_size - (self._open.bytes if self._open else 0)
        borders = [0]
        while borders[-1] < len(sizes):
            before = int(ends[borders[-1] - 1]) if borders[-1] else 0
            borders.append(min(int(np.searchsorted(ends, before + room)) + 1, len(sizes)))
            room = self._shard_size
        return borders

    def _new_shard(self) -> _OpenShard:
        temporary = self._scratch / f"{self._name}-{len(self._shards):03d}"
        return _OpenShard(writer=SHARD_FORMATS[self._format](temporary), temporary=temporary)

    def _write(self, shard: _OpenShard, rows: Rows) -> None:
        shard.writer.add(rows)
        shard.members.append(_members(rows, first_row=shard.rows, shard_index=len(self._shards)))
        shard.rows += len(rows)

    def exclude(self, exclusion: Exclusion) -> None:
        self._exclusions.append(canonical_json(asdict(exclusion)))

    def append(self, table: str, rows: Sequence[Mapping[str, Any]], *, schema: pa.Schema | None = None) -> None:
        """Rows of another table; `schema` where the table is not one of `TABLES`."""
        if schema is not None:
            self._schemas[table] = schema
        if rows:
            batch = pa.RecordBatch.from_pylist(list(rows), schema=self._schemas[table])
            self._parts.setdefault(table, []).append(batch)

    def append_batch(self, table: str, rows: pa.RecordBatch) -> None:
        """The same for rows that are columns already."""
        self._schemas[table] = rows.schema
        if rows.num_rows:
            self._parts.setdefault(table, []).append(rows)

    def add_shard_of_batches(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, counts: Mapping[str, int]
    ) -> ShardEntry:
        """Write a whole shard of sequences; each batch is a block.

        Args:
            counts: totals of the shard: sequences, tokens, images, ...; looked at when the last batch is written.
        """
        temporary = self._scratch / f"{self._name}-{len(self._shards):03d}"
        writer = TableWriter(temporary, schema)
        try:
            for batch in batches:
                writer.write(batch)
            written = writer.close()
        except BaseException:
            writer.abandon()
            raise
        return self._name_shard(temporary, written, "sequences", counts)

    def count_source(self, source: str, counts: Mapping[str, int]) -> None:
        """Add to the totals of a source."""
        self._by_source.setdefault(source, Counter()).update(counts)

    # ------------------------------------------------------------------ shards
    def _close_shard(self) -> None:
        shard, self._open = self._open, None
        if shard is None:
            return
        try:
            written = shard.writer.close()
        except BaseException:
            shard.writer.abandon()
            raise
        entry = self._name_shard(shard.temporary, written, self._format, shard.counts)
        for members in shard.members:
            names = pa.array([entry.path] * members.num_rows, pa.string())
            self._parts.setdefault("examples", []).append(replace_column(members, "shard", names))

    def _name_shard(self, temporary: Path, written: Written, kind: str, counts: Mapping[str, int]) -> ShardEntry:
        suffix = TAR_SUFFIX if kind == "tar" else ARROW_SUFFIX
        folder = self._target / "shards" / self._split
        make_folder(folder)
        path = folder / f"{self._index:05d}-{len(self._shards):03d}-{written.xxh3}{suffix}"
        if written.index_xxh3 is not None:
            publish_content(index_path(temporary), path.with_name(path.name + INDEX_SUFFIX))
        publish_content(temporary, path)
        entry = ShardEntry(
            path=path.relative_to(self._target).as_posix(),
            split=self._split,
            format=kind,
            rows=written.rows,
            size=written.size,
            xxh3=written.xxh3,
            counts={key: value for key, value in sorted(counts.items()) if value},
            index_size=written.index_size,
            index_xxh3=written.index_xxh3,
        )
        self._shards.append(entry)
        self.append(
            "rows", [{"shard": entry.path, "block": n, **asdict(block)} for n, block in enumerate(written.blocks)]
        )
        return entry

    # ------------------------------------------------------------------ receipt
    def finish(self, notes: Mapping[str, Any] | None = None) -> Receipt:
        """Make everything durable, then write the receipt.

        Args:
            notes: JSON values that the stage wants to see again on a rerun.
        """
        self._take_waiting()
        self._close_shard()
        if self._shards:
            sync_folder(self._target / "shards" / self._split)
        parts = {}
        for name in sorted(self._parts):
            batches = self._parts.pop(name)
            if any(batch.num_rows for batch in batches):
                parts[name] = write_part(*self._part_paths(name, ".arrow"), batches, self._schemas[name])
        if self._exclusions:
            parts["exclusions"] = write_part_of_lines(*self._part_paths("exclusions", ".jsonl"), self._exclusions)
        sync_folder(self._target / WORK / "parts")
        receipt = Receipt(
            unit=self._name,
            index=self._index,
            split=self._split,
            shards=tuple(self._shards),
            parts=parts,
            by_source={source: dict(counts) for source, counts in sorted(self._by_source.items())},
            tally=self.tally.to_json(),
            notes=dict(notes or {}),
        )
        write_receipt(receipt, self._target, self._scratch)
        self._done[self._name] = receipt
        return receipt

    def _part_paths(self, name: str, suffix: str) -> tuple[Path, Path]:
        """Where a part is written, and where it is published."""
        return self._scratch / f"{self._name}.{name}", part_file(self._target, self._name, name, suffix)


def _totals(rows: Rows) -> Iterator[tuple[str, dict[str, int]]]:
    """Of each source that has rows: their totals."""
    sources = rows.facts["source"].dictionary_encode()
    codes, names = np.asarray(sources.indices), sources.dictionary.to_pylist()
    columns = {
        "examples": np.ones(len(rows), np.int64),
        "images": np.array(rows.num_images, np.int64),
        "pixels": np.array(rows.pixels(), np.int64),
        "bytes": np.array(rows.sizes, np.int64),
    }
    for code, source in enumerate(names):
        own = codes == code
        yield source, {name: int(values[own].sum()) for name, values in columns.items()}


def _members(rows: Rows, *, first_row: int, shard_index: int) -> pa.RecordBatch:
    """Rows of tables/examples without the shard's name."""
    numbers = np.arange(first_row, first_row + len(rows), dtype=np.int32)
    known = {
        **{name: rows.facts[name] for name in ("example_id", "group", "source")},
        **{name: rows.places[name] for name in rows.places.schema.names},
        "shard": pa.nulls(len(rows), pa.string()),
        "row": pa.array(numbers),
        "shard_index": pa.array(np.full(len(rows), shard_index, np.int32)),
    }
    schema = TABLES["examples"]
    batch = pa.RecordBatch.from_arrays([known[name] for name in schema.names], schema=schema)
    return batch.take(pa.array(np.arange(len(rows))))  # a copy: a view would keep all that came with the columns
