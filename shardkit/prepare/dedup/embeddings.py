"""Vectors of any model, read from files into one array on disk that the level semantic compares.

    FILE.parquet, .arrow, .feather     example_id                    embedding: fixed-size list of float16, 32 or 64
                                       or asset_id (and frame)

A file of `example_id` has vectors of whole examples, one of `asset_id` has vectors of images. Files are read batch by
batch. Stored is the direction of a vector alone, in whole numbers of SCALE steps: products and sums of such vectors are
exact in single precision, so that a cosine is the same number on every machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardkit.errors import ConfigError, OutputError, SourceError
from shardkit.prepare.dedup.keys import Keys, asset_keys, leading

Steps = npt.NDArray[np.int16]
Indices = npt.NDArray[np.int64]

EXAMPLE, ASSET = "example_id", "asset_id"
DIGITS = {EXAMPLE: 32, ASSET: 64}
"""Column of ids -> hex digits of an id."""
SCALE = 4000
"""Length of a stored vector, in steps. A cosine is off by about 0.0001, and never by more than sqrt(width) / SCALE."""
MAX_WIDTH = 36_864
"""(SCALE + sqrt(MAX_WIDTH) / 2) ** 2 is 2 ** 24: up to there single precision holds all whole numbers."""
_BATCH_ROWS = 4096
_IPC_MAGIC = b"ARROW1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """Where the vectors lie: small enough to be sent to workers with every job."""

    path: Path
    num_units: int
    width: int

    def open(self) -> Steps:
        """[num_units, width] from disk."""
        shape = (self.num_units, self.width)
        # An empty file cannot be mapped.
        return np.memmap(self.path, np.int16, "r", shape=shape) if self.num_units else np.zeros(shape, np.int16)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Vectors:
    """Vectors of U units, which are numbered by ascending key."""

    stored: Stored
    """Zeros for a unit without a vector."""
    have: npt.NDArray[np.bool_]
    """[U] whether the unit has one; what has none is near to nothing."""
    counts: Mapping[str, int]
    """read: rows of the files; unknown: for ids that no input has; unusable: null, zero or not finite; repeated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: Path
    ids: str
    """EXAMPLE or ASSET."""
    vectors: str
    """Name of the column."""
    width: int


def read_vectors(
    paths: Sequence[Path], *, column: str | None, units: Mapping[str, Keys], scratch: Path
) -> dict[str, Vectors]:
    """Column of ids -> its vectors, for the kinds of files that are there.

    Args:
        column: the column of the vectors, where a file has several fixed-size lists.
        units: EXAMPLE -> `leading` of the ids, ASSET -> `asset_keys`; each [U], distinct and ascending.
        scratch: a folder for files of 2 bytes a unit and component.

    Raises:
        ConfigError: where a file lacks a column, or widths differ.
        SourceError: where a file is damaged, an id has two different vectors, or all ids are of other datasets.
        OutputError: where the scratch folder cannot be written.
    """
    files = [_describe(path, column) for path in paths]
    found = {}
    for kind in (EXAMPLE, ASSET):
        own = [file for file in files if file.ids == kind]
        if own:
            found[kind] = _read_kind(own, units[kind], scratch / f"vectors-{kind}.i16")
    return found


def directions(values: npt.NDArray[np.float64]) -> tuple[Steps, npt.NDArray[np.bool_]]:
    """[n, width] steps of the vectors' directions, and [n] whether there is one: finite and not zero."""
    largest = np.abs(values).max(axis=1, initial=0)
    usable = np.isfinite(largest) & (largest > 0)
    scaled = np.where(usable[:, None], values, 1) / np.where(usable, largest, 1)[:, None]
    length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
    steps = np.rint(scaled / length * SCALE).astype(np.int16)
    steps[~usable] = 0
    return steps, usable


# ---------------------------------------------------------------------- what a file holds
def _describe(path: Path, column: str | None) -> _File:
    with _opened(path) as (schema, _):
        names = schema.names
        kinds = [kind for kind in DIGITS if kind in names]
        if len(kinds) != 1:
            raise ConfigError(
                f"vectors are found by the column {EXAMPLE} or by {ASSET}, and the file has "
                f"{'both' if kinds else 'neither'} (columns: {', '.join(names)})",
                where=str(path),
                hint="write one of the two columns, with the ids that tables/examples or tables/assets has",
            )
        lists = [field.name for field in schema if _is_vector(field.type)]
        if column is not None and column not in lists:
            raise ConfigError(
                f"--embedding-column {column}: the file has no such fixed-size list of floats; it has "
                f"{', '.join(lists) or 'none'}",
                where=str(path),
                hint="name another column, or cast it to a fixed-size list",
            )
        if column is None and len(lists) != 1:
            raise ConfigError(
                f"the file has {len(lists)} fixed-size lists of floats ({', '.join(lists) or 'columns: ' + ', '.join(names)})",
                where=str(path),
                hint="choose one with --embedding-column" if lists else "cast the vectors to a fixed-size list",
            )
        name = column or lists[0]
        width = schema.field(name).type.list_size
        if not 0 < width <= MAX_WIDTH:
            raise ConfigError(
                f"vectors of {width} numbers cannot be compared; 1 to {MAX_WIDTH} can",
                where=str(path),
                hint="choose another column with --embedding-column",
            )
        return _File(path=path, ids=kinds[0], vectors=name, width=width)


def _is_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Schema and record batches of a Parquet or Arrow IPC file, told apart by their first bytes."""
    hint = "name Parquet or Arrow IPC files with --embeddings"
    try:
        with path.open("rb") as file:
            magic = file.read(len(_IPC_MAGIC))
            file.seek(0)
            if magic == _IPC_MAGIC:
                with pa.ipc.open_file(file) as reader:
                    yield reader.schema, map(reader.get_batch, range(reader.num_record_batches))
            else:
                with pq.ParquetFile(file) as parquet:
                    yield parquet.schema_arrow, parquet.iter_batches(batch_size=_BATCH_ROWS)
    except FileNotFoundError as error:
        raise ConfigError("there is no such file of vectors", where=str(path), hint=hint) from error
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"the vectors cannot be read: {error}", where=str(path), hint=hint) from error


# ---------------------------------------------------------------------- reading
def _read_kind(files: Sequence[_File], keys: Keys, path: Path) -> Vectors:
    width = files[0].width
    for file in files:
        if file.width != width:
            raise ConfigError(
                f"{files[0].path} has vectors of {width} numbers, this file of {file.width}",
                where=str(file.path),
                hint="name files of one model, or choose a column with --embedding-column",
            )
    have = np.zeros(len(keys), np.bool_)
    counts = {"read": 0, "unknown": 0, "unusable": 0, "repeated": 0}
    stored = _created(path, (len(keys), width))
    for file in files:
        with _opened(file.path) as (_, batches):
            for batch in batches:
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    _put(file, batch.slice(start, _BATCH_ROWS), keys, stored=stored, have=have, counts=counts)
    if isinstance(stored, np.memmap):
        stored.flush()
    if counts["read"] and counts["unknown"] == counts["read"]:
        raise SourceError(
            f"none of the {counts['read']} rows has the {files[0].ids} of a row of the inputs",
            where=str(files[0].path),
            hint="write the vectors for the very datasets that are deduplicated; another ingest may give other ids",
        )
    return Vectors(stored=Stored(path=path, num_units=len(keys), width=width), have=have, counts=counts)


def _created(path: Path, shape: tuple[int, int]) -> Steps:
    if not shape[0]:
        return np.zeros(shape, np.int16)
    try:
        return np.memmap(path, np.int16, "w+", shape=shape)
    except OSError as error:
        raise OutputError.from_os(error, str(path)) from error


def _put(
    file: _File,
    batch: pa.RecordBatch,
    keys: Keys,
    *,
    stored: Steps,
    have: npt.NDArray[np.bool_],
    counts: dict[str, int],
) -> None:
    wanted = _keys_of(file, batch)
    unit = np.searchsorted(keys, wanted)
    known = np.zeros(len(wanted), np.bool_)
    inside = unit < len(keys)
    known[inside] = (wanted[inside] != 0) & (keys[unit[inside]] == wanted[inside])
    steps, usable = _steps_of(batch.column(file.vectors), file.width)
    counts["read"] += len(wanted)
    counts["unknown"] += int((~known).sum())
    counts["unusable"] += int((known & ~usable).sum())
    rows = np.flatnonzero(known & usable)
    # Of several rows with one id the first is stored, and the others have to agree with it.
    _, first = np.unique(unit[rows], return_index=True)
    fresh = rows[first]
    fresh = fresh[~have[unit[fresh]]]
    stored[unit[fresh]] = steps[fresh]
    have[unit[fresh]] = True
    again = np.setdiff1d(rows, fresh)
    differ = again[(stored[unit[again]] != steps[again]).any(axis=1)]
    if len(differ):
        raise SourceError(
            f"the {file.ids} {batch.column(file.ids)[int(differ[0])].as_py()} has two different vectors",
            where=str(file.path),
            hint="name files of one model, each id once",
        )
    counts["repeated"] += len(again)


def _keys_of(file: _File, batch: pa.RecordBatch) -> Keys:
    """[n] 0 for what is no id."""
    ids = batch.column(file.ids)
    if not (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        raise ConfigError(
            f"the column {file.ids} is {ids.type}, not strings", where=str(file.path), hint="write ids in hex digits"
        )
    valid = pc.fill_null(pc.match_substring_regex(ids, f"^[0-9a-f]{{{DIGITS[file.ids]}}}$"), fill_value=False)
    ids = pa.chunked_array([pc.if_else(valid, ids.cast(pa.string()), pa.scalar(None, pa.string()))])
    if file.ids == EXAMPLE:
        return leading(ids)
    frames = batch.column("frame") if "frame" in batch.schema.names else pa.nulls(len(batch), pa.int32())
    keys = asset_keys(pa.table({"asset_id": ids, "frame": frames.cast(pa.int64())}))
    keys[~valid.to_numpy(zero_copy_only=False)] = 0
    return keys


def _steps_of(column: pa.FixedSizeListArray, width: int) -> tuple[Steps, npt.NDArray[np.bool_]]:
    there = column.is_valid().to_numpy(zero_copy_only=False)
    values = np.full((len(column), width), np.nan)
    # Floats of all three widths are exact in double precision; a null among them becomes not-a-number.
    flat = column.drop_null().flatten().to_numpy(zero_copy_only=False)
    values[there] = flat.astype(np.float64).reshape(-1, width)
    return directions(values)
