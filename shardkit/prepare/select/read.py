"""What a worker reads of a slice of rows: sizes of all rows, and the columns that the condition asks for.

No image is opened: `images` comes without its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import Slice, open_slice
from shardkit.prepare.dedup.keys import Keys, asset_keys
from shardkit.prepare.dedup.names import Codes, coded
from shardkit.prepare.ragged import bounds_of, row_sums
from shardkit.prepare.select.bind import PRESENT, Field
from shardkit.prepare.select.columns import COLUMNS, METADATA, NUMBER, TEXT
from shardkit.text.language import declared, identify

_FACTS = ("example_id", "source", "segments", "images", "metadata")
"""Columns that every row is counted from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    columns: tuple[str, ...]
    """Names of COLUMNS, ascending."""
    fields: tuple[Field, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """Of a slice of n rows with M images."""

    positions: npt.NDArray[np.int64]
    sources: tuple[list[str], Codes]
    images: npt.NDArray[np.int64]
    """[n] number of images."""
    pixels: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    image_keys: Keys
    """[M]"""
    columns: Mapping[tuple[str, ...], pa.Array]
    """[n], or [M] for those of images; by the name that a bound condition has for it."""
    names: frozenset[str]
    """Metadata fields of the rows, where the condition asks for any."""


def read_slice(wanted: Wanted, piece: Slice) -> Part:
    """What the condition asks of the rows of a slice; run by a worker.

    Raises:
        IntegrityError: where the columns do not hold together.
    """
    table = _table(wanted, piece)
    images = table["images"]
    facts = images.values
    counts = np.diff(images.offsets.to_numpy()).astype(np.int64)
    bounds = bounds_of(counts)
    area = _numbers(facts.field("width")) * _numbers(facts.field("height"))
    texts = _texts(table["segments"])
    payload = _numbers(facts.field("size")) + _numbers(pc.binary_length(facts.field("asset_id")))
    sizes = row_sums(bounds, payload)
    for column in (table["example_id"], texts, table["metadata"]):
        sizes = sizes + _numbers(pc.binary_length(column))
    metadata: list[Any] = []
    if wanted.fields or {"language", "licence"} & set(wanted.columns):
        metadata = list(map(orjson.loads, table["metadata"].to_pylist()))
    columns: dict[tuple[str, ...], pa.Array] = {
        (name,): _READ[name](_Row(table=table, facts=facts, counts=counts, texts=texts, metadata=metadata))
        for name in wanted.columns
        if name in _READ
    }
    columns |= {(METADATA, *path, kind): _field(metadata, path, kind) for path, kind in wanted.fields}
    return Part(
        positions=piece.positions,
        sources=coded(table["source"].to_pylist()),
        images=counts,
        pixels=row_sums(bounds, area),
        bytes=sizes,
        image_keys=asset_keys(pa.table({name: facts.field(name) for name in ("asset_id", "frame")})),
        columns=columns,
        names=frozenset(name for row in metadata for name in row) if wanted.fields else frozenset(),
    )


def _table(wanted: Wanted, piece: Slice) -> Mapping[str, pa.Array]:
    names = dict.fromkeys((*_FACTS, *(need for name in wanted.columns for need in COLUMNS[name].needs)))
    rows = piece.rows
    first, last = int(rows.min()), int(rows.max())
    reader = open_slice(piece)
    try:
        # Taken also where the rows lie side by side, so that each column has its own values alone, beginning at 0.
        table = reader.columns(tuple(names), rows=range(first, last + 1)).take(pa.array(rows - first))
        # Offsets of damaged columns must not lead outside; these blocks are not compared with their digests, because
        # that would read every image.
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})", hint="run `shardkit verify` on the dataset"
        ) from error
    finally:
        reader.close()
    return {name: table[name].combine_chunks() for name in names}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Row:
    table: Mapping[str, pa.Array]
    facts: pa.StructArray
    """Of the images."""
    counts: npt.NDArray[np.int64]
    texts: pa.Array
    metadata: list[Any]


def _texts(segments: pa.ListArray) -> pa.Array:
    """[n] the text segments of each row, joined: they lie side by side, so only the borders are others."""
    texts = pc.fill_null(segments.values.field("text"), "")
    _, borders, data = texts.buffers()
    ends = np.frombuffer(borders, np.int64)[segments.offsets.to_numpy() + texts.offset]
    return pa.LargeStringArray.from_buffers(len(segments), pa.py_buffer(ends), data)


def _pixels(row: _Row) -> pa.Array:
    return pa.array(_numbers(row.facts.field("width")) * _numbers(row.facts.field("height")), pa.float64())


def _aspect(row: _Row) -> pa.Array:
    return pa.array(_numbers(row.facts.field("width")) / _numbers(row.facts.field("height")))


def _word_confidence(row: _Row) -> pa.Array:
    layouts = row.facts.field("layout")
    return _by_list(layouts, "confidence", lambda values: float(np.mean(values)))


def _confidence(row: _Row) -> pa.Array:
    return _by_list(row.table["relations"], "confidence", lambda values: float(np.min(values)))


def _by_list(lists: pa.ListArray, name: str, reduce: Callable[[npt.NDArray[np.float64]], float]) -> pa.Array:
    """[n] what `reduce` makes of the values of each list that are there; null where there are none."""
    lists = lists.take(pa.array(np.arange(len(lists))))
    values = lists.values.field(name).to_numpy(zero_copy_only=False).astype(np.float64)
    found: list[float | None] = []
    ends = lists.offsets.to_numpy().tolist()
    for begin, end in pairwise(ends):
        own = values[begin:end]
        own = own[np.isfinite(own)]
        found.append(reduce(own) if len(own) else None)
    return pa.array(found, pa.float64())


def _language(row: _Row) -> pa.Array:
    """As the row declares it, else as its text looks."""
    found = [declared(metadata) for metadata in row.metadata]
    unknown = [number for number, language in enumerate(found) if language is None]
    texts = row.texts.take(pa.array(unknown, pa.int64())).to_pylist()
    for number, (code, _) in zip(unknown, identify(texts), strict=True):
        found[number] = code
    return pa.array(found, pa.string())


def _declared_licence(row: _Row) -> pa.Array:
    """[n] what the metadata says: of rows without an image there is nothing else."""
    return pa.array((_licence(metadata) for metadata in row.metadata), pa.string())


def _licence(metadata: Mapping[str, Any]) -> str | None:
    values = (metadata.get(name) for name in ("licence", "license"))
    return next((value for value in values if isinstance(value, str) and value.strip()), None)


def _fact(name: str) -> Callable[[_Row], pa.Array]:
    return lambda row: pa.array(_numbers(row.facts.field(name)), pa.float64())


def _plain(name: str) -> Callable[[_Row], pa.Array]:
    return lambda row: row.table[name]


_READ: dict[str, Callable[[_Row], pa.Array]] = {
    "width": _fact("width"),
    "height": _fact("height"),
    "pixels": _pixels,
    "aspect": _aspect,
    "media_type": lambda row: row.facts.field("media_type"),
    "word_confidence": _word_confidence,
    "licence": _declared_licence,
    "images": lambda row: pa.array(row.counts, pa.float64()),
    "text": lambda row: row.texts,
    "text_length": lambda row: pc.cast(pc.utf8_length(row.texts), pa.float64()),
    "language": _language,
    "confidence": _confidence,
    "source": _plain("source"),
    "group": _plain("group"),
}
"""Columns that come from the shards; the others stand in the tables (`tables.py`)."""


# ---------------------------------------------------------------------- metadata
def _field(metadata: Iterable[Any], path: tuple[str, ...], kind: str) -> pa.Array:
    values = _values(metadata, path)
    if kind == PRESENT:
        return pa.array([None if value is None else True for value in values], pa.bool_())
    if kind == NUMBER:
        return pa.array(map(_as_number, values), pa.float64())
    if kind == TEXT:
        return pa.array(map(_as_text, values), pa.string())
    return pa.array(map(_as_truth, values), pa.bool_())


def _values(metadata: Iterable[Any], path: tuple[str, ...]) -> Iterator[Any]:
    for value in metadata:
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        yield value


def _as_number(value: Any) -> float | None:
    """Tables of text hold numbers as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def _as_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode() if isinstance(value, bool | int | float) else None


def _as_truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


# ---------------------------------------------------------------------- numbers
def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64)
