"""Examples as columns: the rows of a shard without the bytes of their pictures, which are kept beside them.

Values are gathered column by column, and a process that makes examples hands columns to the one that writes them
(`Rows`): an object for every word of a page would cost more than the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from shardkit.records import Example, Segment
from shardkit.store.rows import image_from_row, payload, relation_from_row
from shardkit.store.schema import EXAMPLES_FACTS, PROVENANCE, TABLES

_PLACES = pa.schema(
    [TABLES["examples"].field(name) for name in ("input", "position", "parent_id", "has_email", "has_phone")]
)
_SCHEMAS = {"facts": EXAMPLES_FACTS, "places": _PLACES, "assets": TABLES["assets"], "provenance": PROVENANCE}
"""Part of `Rows` -> its columns."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rows:
    """n consecutive examples of a unit, with m images in all."""

    facts: pa.RecordBatch
    """[n] rows of EXAMPLES_FACTS."""
    pictures: list[bytes]
    """[m] stored bytes, in the order of the images in `facts`."""
    sizes: list[int]
    """[n] payload, in bytes."""
    num_images: list[int]
    """[n]"""
    num_origins: list[int] = field(default_factory=list)
    """[n] rows of provenance; empty where there are none."""
    places: pa.RecordBatch
    """[n] input, position, parent_id, has_email and has_phone, as tables/examples has them."""
    assets: pa.RecordBatch
    """[m] rows of tables/assets, or none at all."""
    provenance: pa.RecordBatch
    """Rows of provenance/provenance.parquet, in the order of the examples."""

    def __len__(self) -> int:
        return len(self.sizes)

    def pixels(self) -> list[int]:
        """[n] width times height, summed over the images of each."""
        images = self.facts["images"].flatten()
        sizes = np.asarray(images.field("width"), np.int64) * np.asarray(images.field("height"), np.int64)
        ends = np.cumsum(self.num_images)
        up_to = np.append(0, np.cumsum(sizes))
        found: list[int] = (up_to[ends] - up_to[ends - self.num_images]).tolist()
        return found

    def slice(self, start: int, stop: int) -> Rows:
        """The examples from `start` on, up to `stop`."""
        return next(self.cut((start, stop)))

    def cut(self, borders: Sequence[int]) -> Iterator[Rows]:
        """The examples between each two of some ascending borders."""
        images, origins = (
            np.append(0, np.cumsum(counts, dtype=np.int64)) for counts in (self.num_images, self.num_origins)
        )
        for start, stop in pairwise(borders):
            if start == 0 and stop == len(self):
                yield self
                continue
            first, last = int(images[start]), int(images[stop])
            origin, past = (int(origins[min(at, len(self.num_origins))]) for at in (start, stop))
            yield Rows(
                facts=self.facts.slice(start, stop - start),
                pictures=self.pictures[first:last],
                sizes=self.sizes[start:stop],
                num_images=self.num_images[start:stop],
                num_origins=self.num_origins[start:stop],
                places=self.places.slice(start, stop - start),
                assets=self.assets.slice(first, last - first),
                provenance=self.provenance.slice(origin, past - origin),
            )

    def __reduce__(self) -> tuple[Callable[..., Rows], tuple[object, ...]]:
        # A batch that is pickled as it is takes its types along with every column.
        parts = [getattr(self, name).serialize().to_pybytes() for name in _SCHEMAS]
        return _restored, (self.pictures, (self.sizes, self.num_images, self.num_origins), *parts)


def _restored(pictures: list[bytes], numbers: tuple[list[int], list[int], list[int]], *parts: bytes) -> Rows:
    sizes, num_images, num_origins = numbers
    batches = {
        name: pa.ipc.read_record_batch(pa.py_buffer(part), schema)
        for (name, schema), part in zip(_SCHEMAS.items(), parts, strict=True)
    }
    return Rows(pictures=pictures, sizes=sizes, num_images=num_images, num_origins=num_origins, **batches)


def to_rows(
    examples: Sequence[Example],
    places: Sequence[Mapping[str, Any]],
    *,
    assets: Sequence[Mapping[str, Any]] = (),
    provenance: Sequence[Sequence[Mapping[str, Any]]] = (),
) -> Rows:
    """Examples on their way into a unit.

    Args:
        places: of each example its input and position, and what is known of parent_id, has_email and has_phone.
        assets: a row of tables/assets for each image of the examples, in order, as far as it is known; or none.
        provenance: rows of provenance/provenance.parquet for each example; or none for any.
    """
    origins = [row for rows in provenance for row in rows]
    return Rows(
        facts=to_facts(examples),
        pictures=[image.data for example in examples for image in example.images],
        sizes=[payload(example) for example in examples],
        num_images=[len(example.images) for example in examples],
        num_origins=[len(rows) for rows in provenance],
        places=pa.RecordBatch.from_pylist(list(places), schema=_PLACES),
        assets=pa.RecordBatch.from_pylist(list(assets), schema=TABLES["assets"]),
        provenance=pa.RecordBatch.from_pylist(origins, schema=PROVENANCE),
    )


def to_facts(examples: Sequence[Example]) -> pa.RecordBatch:
    """[n] examples as rows of EXAMPLES_FACTS."""
    columns = [_column(field.type, list(map(attrgetter(field.name), examples))) for field in EXAMPLES_FACTS]
    return pa.RecordBatch.from_arrays(columns, schema=EXAMPLES_FACTS)


def examples_of(rows: pa.RecordBatch) -> list[Example]:
    """[n] rows of a shard as examples, without the bytes of their pictures: `to_facts` the other way round.

    Args:
        rows: `images` may have other fields besides, but no bytes.
    """
    segments = _parted(
        rows.column("segments"),
        lambda flat: [
            Segment(kind=kind, text=text, image=image, role=role, supervised=supervised, name=name)
            for kind, text, image, role, supervised, name in zip(*_fields(flat, _SEGMENT_FIELDS), strict=True)
        ],
    )
    images = _parted(
        rows.column("images"), lambda flat: [image_from_row({**image, "bytes": b""}) for image in flat.to_pylist()]
    )
    relations = _parted(rows.column("relations"), lambda flat: [relation_from_row(row) for row in flat.to_pylist()])
    plain = [rows.column(name).to_pylist() for name in ("source", "metadata", "group", "example_id")]
    return [
        Example(
            source=source,
            segments=own,
            images=shown,
            relations=related,
            metadata=metadata,
            group=group,
            example_id=example_id,
        )
        for own, shown, related, source, metadata, group, example_id in zip(
            segments, images, relations, *plain, strict=True
        )
    ]


_SEGMENT_FIELDS = ("kind", "text", "image", "role", "supervised", "name")


def _fields(flat: pa.StructArray, names: Sequence[str]) -> list[list[Any]]:
    """The values of each field."""
    children = dict(zip((field.name for field in flat.type), flat.flatten(), strict=True))
    return [children[name].to_pylist() for name in names]


def _parted(column: pa.ListArray, made: Callable[[pa.StructArray], list[Any]]) -> list[tuple[Any, ...]]:
    """A list of each row: what `made` makes of all items of the column."""
    flat = column.flatten()
    if not len(flat):
        return [()] * len(column)
    items = made(flat)
    ends = np.cumsum(np.asarray(column.value_lengths())).tolist()
    return [tuple(items[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Values of one field; lists are taken apart, and records in them by attributes that are named as the fields are."""
    if not pa.types.is_list(kind):
        return pa.array(values, kind)
    items = [item for one in values if one for item in one]
    if pa.types.is_struct(kind.value_type):
        fields = list(kind.value_type)
        columns = [_column(field.type, list(map(attrgetter(field.name), items))) for field in fields]
        flat = pa.StructArray.from_arrays(columns, fields=fields)
    else:
        flat = pa.array(items, kind.value_type)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(one) if one else 0 for one in values], out=offsets[1:])
    absent = [one is None for one in values]
    mask = pa.array(absent, pa.bool_()) if any(absent) else None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat, type=kind, mask=mask)
