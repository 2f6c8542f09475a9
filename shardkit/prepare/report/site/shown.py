"""Examples as cards: read with all checks, their pictures made small."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from shardkit.errors import ShardkitError
from shardkit.media.reasons import BadMedia
from shardkit.media.thumbnail import thumbnail
from shardkit.prepare.lineage.index import Index
from shardkit.prepare.report.site.markup import Html, card, excerpt
from shardkit.records import Example
from shardkit.store.dataset import Dataset
from shardkit.store.recent import RecentReaders
from shardkit.store.shard import ShardReader

_OPEN = 16
_PICTURES = 2
"""Of one example; it may show hundreds."""


class Gallery:
    """The examples of one dataset, also those that it refers to and left out.

    Args:
        side: of thumbnails, in pixels; 0 for none.
    """

    def __init__(self, dataset: Dataset, *, side: int) -> None:
        self._dataset = dataset
        self._side = side
        self._index = Index(dataset)
        self._reader: RecentReaders[ShardReader] = RecentReaders(
            lambda shard: dataset.reader(dataset.shards[shard]), limit=_OPEN
        )

    def close(self) -> None:
        self._reader.close()

    def place_of(self, example_id: str) -> tuple[int, int] | None:
        """(shard, row) of an example of this dataset, also one that it removed; None where it has none of that id."""
        found = self._index.examples_of(example_id)
        if found:
            return self._index.places_of(found[:1])[0]
        rows = self._clusters.filter(pc.equal(self._clusters["example_id"], example_id)).to_pylist()
        return (rows[0]["shard_index"], rows[0]["row"]) if rows else None

    @cached_property
    def _clusters(self) -> pa.Table:
        columns = ["example_id", "shard_index", "row"]
        there = self._dataset.has_table("clusters")
        return self._dataset.table("clusters" if there else "examples", columns).slice(0, None if there else 0)

    def of_id(self, example_id: str, *lines: object, gone: bool = False, place: tuple[int, int] | None = None) -> Html:
        """The card of an example.

        Args:
            place: where it lies, where no table of examples says so.
        """
        place = place or self.place_of(example_id)
        if place is None:
            return card(
                pictures=(), title=example_id[:12], lines=(*lines, "lies in no shard of this dataset"), gone=gone
            )
        return self.at(*place, *lines, gone=gone)

    def at(self, shard: int, row: int, *lines: object, gone: bool = False) -> Html:
        """The card of a row; what cannot be read says so."""
        ref = self._dataset.shards[shard]
        try:
            example = self._reader(shard).example(row)
        except ShardkitError as error:
            return card(
                pictures=(), title=f"{ref.name}:{row}", lines=(*lines, f"cannot be read: {error.what}"), gone=gone
            )
        about = f"{example.source}, {ref.split}" if ref.split != "all" else example.source
        return card(
            pictures=self._pictures(example),
            title=example.example_id[:12],
            lines=(*lines, about, f"group {example.group}" if example.group else "", excerpt(example.text)),
            gone=gone,
        )

    def _pictures(self, example: Example) -> Sequence[bytes | str]:
        if not self._side:
            return ()
        found: list[bytes | str] = []
        for image in example.images[:_PICTURES]:
            try:
                found.append(thumbnail(image.data, self._side))
            except BadMedia as bad:
                found.append(f"the picture does not decode: {bad.detail}")
        if len(example.images) > _PICTURES:
            found.append(f"{len(example.images) - _PICTURES} more pictures")
        return found
