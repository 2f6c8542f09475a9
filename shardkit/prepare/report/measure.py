"""What the columns of a slice say of its rows: sizes, who annotated, which modality, which language. No image is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import IntegrityError
from shardkit.prepare.dedup.inputs import Slice, open_slice
from shardkit.prepare.dedup.names import Codes, coded
from shardkit.prepare.ragged import Numbers, row_sums
from shardkit.text.language import LOOKED_AT, declared, identify

MODALITIES = ("text", "image", "image and text", "none")
"""Modality of an example by what its segments hold; `none` has neither a picture nor a sign that is not blank."""
_BEGINNING = 4 * LOOKED_AT
"""Characters of a segment in which its first LOOKED_AT are looked for that are not blank."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """Of n rows with m images."""

    positions: Numbers
    """[n] their numbers among all rows."""
    sources: tuple[Sequence[str], Codes]
    annotators: tuple[Sequence[str], Codes]
    """Who made the relations of each row; several are joined by ` + `, -1 where none is named."""
    languages: tuple[Sequence[str], Codes]
    """As the metadata says, else of its text by the model; -1 for rows without a text."""
    modalities: Numbers
    """[n] place in MODALITIES."""
    images: Numbers
    pixels: Numbers
    characters: Numbers
    num_bytes: Numbers
    """[n] each; the bytes are payload."""
    widths: Numbers
    heights: Numbers
    """[m] of each image."""


def measure(piece: Slice) -> Measured:
    """Measure the rows of a slice; run by a worker."""
    table = columns_of(piece, ("example_id", "source", "segments", "images", "relations", "metadata"))
    segments, images = list_column(table["segments"]), list_column(table["images"])
    widths, heights = (ints(images.values.field(name)) for name in ("width", "height"))
    texts = segments.values.field("text")
    blank = pc.fill_null(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0), True)
    has_text = per_row(segments, pc.invert(blank)) > 0
    shows = per_row(segments, pc.is_valid(segments.values.field("image"))) > 0
    return Measured(
        positions=piece.positions,
        sources=coded(table["source"].to_pylist()),
        annotators=_annotators(list_column(table["relations"])),
        languages=coded(_languages(table, segments, has_text)),
        modalities=np.select([has_text & shows, shows, has_text], [2, 1, 0], 3).astype(np.int64),
        images=np.diff(images.offsets.to_numpy()).astype(np.int64),
        pixels=row_sums(images.offsets.to_numpy(), widths * heights),
        characters=per_row(segments, pc.utf8_length(texts)),
        num_bytes=row_bytes(table),
        widths=widths,
        heights=heights,
    )


def columns_of(piece: Slice, names: Sequence[str]) -> pa.Table:
    """Columns of the rows of a slice, in one chunk.

    Raises:
        IntegrityError: where they do not hold together.
    """
    reader = open_slice(piece)
    try:
        first, last = int(piece.rows.min()), int(piece.rows.max())
        table = reader.columns(names, rows=range(first, last + 1)).take(pa.array(piece.rows - first))
        table.validate(full=True)  # these blocks are not compared with their digests: that would read every image
        return table.combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})",
            where=str(piece.dataset),
            hint="run `shardkit verify` on the dataset",
        ) from error
    finally:
        reader.close()


def payloads(piece: Slice) -> Numbers:
    """[n] bytes of images, texts, metadata and ids of each row, as --shard-size counts; run by a worker."""
    return row_bytes(columns_of(piece, ("example_id", "segments", "images", "metadata")))


def row_bytes(table: pa.Table) -> Numbers:
    """[n] payload of each row of a table with example_id, segments, images and metadata."""
    segments, images = list_column(table["segments"]), list_column(table["images"])
    total = per_row(segments, pc.binary_length(segments.values.field("text")))
    total += per_row(images, images.values.field("size"))
    total += per_row(images, pc.binary_length(images.values.field("asset_id")))
    for name in ("example_id", "metadata"):
        total += np.asarray(pc.binary_length(table[name]).to_numpy(), np.int64)
    return total


def list_column(column: pa.ChunkedArray) -> pa.ListArray:
    """A column of one chunk as an array."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def ints(values: pa.Array) -> Numbers:
    """Numbers, 0 for null and false, 1 for true."""
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.int64)


def per_row(lists: pa.ListArray, values: pa.Array) -> Numbers:
    """[n] the sum of each row's values."""
    return row_sums(lists.offsets.to_numpy(), ints(values))


def _annotators(relations: pa.ListArray) -> tuple[list[str], Codes]:
    """The annotators of each row's relations; rows with several are looked at one by one, they are few."""
    count = len(relations)
    encoded = relations.values.field("annotator").dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(), np.int64)
    rows = np.repeat(np.arange(count), np.diff(relations.offsets.to_numpy()))
    rows, codes = rows[codes >= 0], codes[codes >= 0]
    least, most = np.full(count, len(names), np.int64), np.full(count, -1, np.int64)
    np.minimum.at(least, rows, codes)
    np.maximum.at(most, rows, codes)
    found: list[str | None] = [names[code] if code >= 0 else None for code in most.tolist()]
    for row in np.flatnonzero((most >= 0) & (least != most)).tolist():
        found[row] = " + ".join(sorted({names[code] for code in codes[rows == row].tolist()}))
    return coded(found)


def _languages(table: pa.Table, segments: pa.ListArray, has_text: npt.NDArray[np.bool_]) -> list[str | None]:
    """The language of each row: what its metadata says, else what the model says of the beginning of its text."""
    texts = pc.utf8_slice_codeunits(pc.fill_null(segments.values.field("text"), ""), 0, _BEGINNING).to_pylist()
    ends = segments.offsets.to_pylist()
    found: list[str | None] = [
        declared(orjson.loads(metadata)) if '"lang' in metadata else None for metadata in table["metadata"].to_pylist()
    ]
    asked = [row for row, language in enumerate(found) if language is None and has_text[row]]
    beginnings = ("".join(texts[ends[row] : ends[row + 1]]).lstrip()[:LOOKED_AT] for row in asked)
    for row, (language, _) in zip(asked, identify(beginnings), strict=True):
        found[row] = language
    return found
