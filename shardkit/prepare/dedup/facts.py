"""What matchers and splits look at: facts of an example, read from its columns; no image is opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardkit.digest import canonical_json
from shardkit.errors import IntegrityError
from shardkit.store.shard import ShardReader
from shardkit.text.normalize import normalize

COLUMNS = ("example_id", "source", "group", "segments", "images", "relations", "metadata")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    example_id: str
    source: str
    group: str | None
    metadata: str
    """Canonical JSON object."""
    assets: tuple[str, ...]
    """Asset id of each image, in order."""
    frames: tuple[int, ...]
    pixels: tuple[str, ...]
    """Pixel id of each image."""
    stored: tuple[str, ...]
    """xxh3-128 of the stored bytes of each image."""
    num_pixels: int
    """Of all images together."""
    num_bytes: int
    """Payload: images, texts and metadata, as --shard-size counts."""
    raw_text: str
    """The text segments, joined."""
    text: str
    """Their compared form; empty where there is no text."""
    parts: bytes
    """Roles and names of the text segments with the compared form of each; empty where none has a role or name."""
    roles: bytes
    """Roles of the text segments alone; empty where none has a role or name."""
    named: bool
    """Whether a text segment has a name (a chosen answer, a tool call): such texts are compared whole or not at all."""
    kinds: frozenset[str]
    """Of its relations: caption, ocr, ..."""
    texts: tuple[str, ...] = ()
    """The text segments, in order."""


_FILLED = {
    "example_id": "0" * 32, "source": "", "metadata": "{}", "asset_id": "", "pixel_id": "0" * 32, "stored_xxh3": "",
    "frame": 0, "width": 0, "height": 0, "size": 0,
}  # fmt: skip
"""Columns that are never null, and what stands for a null in an audit."""


def read_facts(
    reader: ShardReader, rows: npt.NDArray[np.int32] | None = None, *, with_gaps: bool = False
) -> Iterator[Facts]:
    """Facts of all rows of a shard, or of `rows` in their order.

    Args:
        with_gaps: go on where a column is null that never is, with what compares unequal to everything: for an audit.

    Raises:
        IntegrityError: where the columns do not hold together.
    """
    if rows is not None and not len(rows):
        return
    # Only the blocks between the first row and the last: a slice of a shard must not cost as much as the shard.
    first, last = (0, reader.num_rows - 1) if rows is None else (int(rows.min()), int(rows.max()))
    table = reader.columns(COLUMNS, rows=range(first, last + 1))
    try:
        if rows is not None and not (np.diff(rows) == 1).all():
            table = table.take(pa.array(rows - first))
        # Offsets of damaged columns must not lead outside; these blocks are not compared with their digests, because
        # that would read every image.
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise IntegrityError(
            f"the columns of a shard do not hold together ({error})", hint="run `shardkit verify` on the dataset"
        ) from error
    for batch in table.to_batches():
        yield from _facts(batch, with_gaps=with_gaps)


def _listed(column: pa.Array, name: str, *, with_gaps: bool) -> list[Any]:
    """The values of a column; of one that is never null without gaps."""
    if column.null_count and name in _FILLED:
        if not with_gaps:
            raise IntegrityError(
                f"the columns of a shard do not hold together (a {name} is null)",
                hint="run `shardkit verify` on the dataset",
            )
        column = pc.fill_null(column, _FILLED[name])
    values: list[Any] = column.to_pylist()
    return values


def _facts(batch: pa.RecordBatch, *, with_gaps: bool) -> Iterator[Facts]:
    segments, images, relations = (batch.column(name) for name in ("segments", "images", "relations"))
    texts, roles, names = (segments.values.field(name).to_pylist() for name in ("text", "role", "name"))
    text_ends, image_ends, ends = (column.offsets.to_numpy().tolist() for column in (segments, images, relations))
    kinds = relations.values.field("kind").to_pylist()
    columns = ("asset_id", "frame", "pixel_id", "stored_xxh3", "width", "height", "size")
    assets, frames, pixels, stored, widths, heights, sizes = (
        _listed(images.values.field(name), name, with_gaps=with_gaps) for name in columns
    )
    plain = zip(
        *(
            _listed(batch.column(name), name, with_gaps=with_gaps)
            for name in ("example_id", "source", "group", "metadata")
        ),
        strict=True,
    )
    for row, (example_id, source, group, metadata) in enumerate(plain):
        spoken = slice(text_ends[row], text_ends[row + 1])
        own_texts, own_roles, own_names = texts[spoken], roles[spoken], names[spoken]
        own = slice(image_ends[row], image_ends[row + 1])
        raw = "".join(text for text in own_texts if text)
        yield Facts(
            example_id=example_id,
            source=source,
            group=group,
            metadata=metadata,
            assets=tuple(assets[own]),
            frames=tuple(frames[own]),
            pixels=tuple(pixels[own]),
            stored=tuple(stored[own]),
            num_pixels=sum(map(int.__mul__, widths[own], heights[own])),
            num_bytes=sum(sizes[own])
            + sum(map(len, assets[own]))
            + len(example_id)
            + len(raw.encode())
            + len(metadata.encode()),
            raw_text=raw,
            text=normalize(raw),
            parts=_parts(own_texts, own_roles, own_names),
            roles=_roles(own_texts, own_roles, own_names),
            named=any(own_names),
            kinds=frozenset(kinds[ends[row] : ends[row + 1]]),
            texts=tuple(text for text in own_texts if text),
        )


def _parts(texts: Sequence[str | None], roles: Sequence[Any], names: Sequence[Any]) -> bytes:
    """Turns of a dialogue and named texts are told apart: joined, they would hide who says what."""
    if not any(roles) and not any(names):
        return b""
    return canonical_json([[r, n, normalize(t)] for t, r, n in zip(texts, roles, names, strict=True) if t is not None])


def _roles(texts: Sequence[str | None], roles: Sequence[Any], names: Sequence[Any]) -> bytes:
    if not any(roles) and not any(names):
        return b""
    return canonical_json([role for text, role in zip(texts, roles, strict=True) if text is not None])
