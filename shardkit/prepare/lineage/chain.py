"""The parts of an answer: sequences, examples with their relations and images, assets with their origins, raw files.

Everything is read from the dataset itself, through the shards that a view refers to; only what a raw file was (its
size and digest) and what was stated for a whole source stand in the dataset that took it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from shardkit.digest import fingerprint
from shardkit.prepare.lineage.ancestry import Ancestry
from shardkit.prepare.lineage.index import Place
from shardkit.sequence.sequence import sequence_id
from shardkit.store.arrow_shard import TableReader
from shardkit.store.recent import RecentReaders
from shardkit.store.sequences import sequence_recipe
from shardkit.store.shard import ShardReader
from shardkit.store.table_rows import TableRows
from shardkit.text.excerpt import excerpt

TEXT = 200
"""Characters of text that are shown."""
SEQUENCE = ("sequence_id", "example_id", "shard", "row", "window", "num_tokens", "num_supervised")
_IMAGE = ("asset_id", "frame", "media_type", "width", "height", "pixel_id", "stored_xxh3", "size", "path")
_OPEN = 32
"""Shards that stay open."""


class Chain:
    """Reads the links of a dataset's chain; shards stay open between look-ups."""

    def __init__(self, ancestry: Ancestry) -> None:
        self._ancestry = ancestry
        self._index = ancestry.own
        dataset = ancestry.dataset
        self._shards: RecentReaders[ShardReader] = RecentReaders(
            lambda number: dataset.reader(dataset.shards[number], whole=False), limit=_OPEN
        )
        self._sequences: RecentReaders[TableReader] = RecentReaders(
            lambda number: dataset.sequence_reader(dataset.sequence_shards[number], whole=False), limit=_OPEN
        )
        holders = {shard.holder.id: shard.holder for shard in dataset.sequence_shards}
        self._fingerprints = tuple(sorted({fingerprint(sequence_recipe(holder.recipe)) for holder in holders.values()}))
        """Of the recipes that made the sequences."""
        self._inputs: dict[str, dict[str, dict[str, Any]]] = {}

    def shard(self, number: int) -> ShardReader:
        """A shard of examples, open: what was read of one behind a URL is there already."""
        return self._shards(number)

    def sequence_shard(self, number: int) -> TableReader:
        """Likewise one of sequences."""
        return self._sequences(number)

    # ------------------------------------------------------------------ sequences
    def sequences_at(self, places: Sequence[Place]) -> list[dict[str, Any]]:
        """Rows of the sequence shards without their tokens; `example` is the place of the example among the shards."""
        found: dict[Place, dict[str, Any]] = {}
        for shard, row in sorted(set(places)):
            batch, at = self._sequences(shard).locate(row)
            facts = batch.select(list(SEQUENCE)).slice(at, 1).to_pylist()[0]
            dataset = self._index.dataset
            ref = dataset.sequence_shards[shard]
            example = (dataset.examples_of(ref)[facts.pop("shard")], facts.pop("row"))
            found[shard, row] = {**facts, "shard": ref.name, "row": row, "split": ref.split, "example": example}
        return [dict(found[place]) for place in places]

    def sequences_of(self, example_id: str, place: Place) -> list[dict[str, Any]]:
        """The sequences that were made from the example at `place`, in order of their windows."""
        found: list[dict[str, Any]] = []
        for recipe in self._fingerprints:
            window = 0
            while places := self._index.sequences_of(sequence_id(example_id, recipe, window)):
                found += [one for one in self.sequences_at(places) if one["example"] == place]
                window += 1
        return found

    # ------------------------------------------------------------------ examples
    def examples_at(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The examples at positions of tables/examples, with relations and images from their shards."""
        rows = self._index.examples.take(positions)
        found: dict[int, dict[str, Any]] = {}
        # Shard by shard, so that a batch of many examples opens each once.
        for position, row in sorted(zip(positions, rows, strict=True), key=lambda pair: _place(pair[1])):
            found[position] = self._example(row)
        return [found[position] for position in positions]

    def _example(self, row: dict[str, Any]) -> dict[str, Any]:
        number, place = _place(row)
        shard = self._index.dataset.shards[number]
        columns = ("segments", "images", "relations", "metadata")
        content = self._shards(number).columns(columns, rows=range(place, place + 1)).to_pylist()[0]
        images = content["images"]
        texts = [segment["text"] for segment in content["segments"] if segment["text"]]
        return {
            "example_id": row["example_id"],
            "parent_id": row["parent_id"],
            "source": row["source"],
            "group": row["group"],
            "split": shard.split,
            "dataset": shard.holder.id,
            "path": shard.where,
            "shard": shard.name,
            "row": place,
            "input": row["input"],
            "position": row["position"],
            "file": self.raw_file(row["source"], row["input"]),
            "stated": self._stated(row["source"], content["metadata"]),
            "text": excerpt(" ".join(texts), TEXT),
            "relations": [
                {**relation, "assets": [images[image]["asset_id"] for image in relation["images"]]}
                for relation in content["relations"]
            ],
            "images": [{name: image[name] for name in _IMAGE} for image in images],
        }

    def _stated(self, source: str, metadata: str) -> dict[str, str | None]:
        """Revision, time of retrieval and licence, as ingest takes them: for the whole source, else from the row."""
        own = orjson.loads(metadata)
        ingest = self._ancestry.ingests.get(source)
        whole = ingest.recipe if ingest is not None else {}
        return {
            "revision": whole.get("revision") or _text(own.get("revision")),
            "retrieved_at": whole.get("retrieved_at") or _text(own.get("retrieved_at")),
            "licence": whole.get("licence") or _text(own.get("licence")) or _text(own.get("license")),
        }

    def raw_file(self, source: str, name: str) -> dict[str, Any] | None:
        """Size and xxh3-128 of a raw file as ingest read it; None where the dataset that took it in is not at hand."""
        ingest = self._ancestry.ingests.get(source)
        if ingest is None or not ingest.has_table("inputs"):
            return None
        if source not in self._inputs:
            rows = TableRows(ingest, "inputs").columns("input", "size", "xxh3").to_pylist()
            self._inputs[source] = {row["input"]: {"size": row["size"], "xxh3": row["xxh3"]} for row in rows}
        return self._inputs[source].get(name)

    # ------------------------------------------------------------------ assets
    def assets_of(self, examples: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """The images of examples with their rows of provenance: those of these examples, and further origins, left by
        duplicates that were removed. `examples` counts all that show the image in this dataset."""
        index = self._index
        ids = {example["example_id"] for example in examples}
        images = {(i["asset_id"], i["frame"]): i for example in examples for i in example["images"]}
        origins = index.origins_of([asset for asset, _ in images])
        kept = index.has_examples({row["example_id"] for rows in origins for row in rows})
        assets = []
        for image, rows in zip(images, origins, strict=True):
            own = [row for row in rows if row["frame"] == image[1]]
            assets.append(
                {
                    **images[image],
                    "examples": len({row["example_id"] for row in own} & kept),
                    "provenance": [row for row in own if row["example_id"] in ids or row["example_id"] not in kept],
                }
            )
        return assets


def _place(row: dict[str, Any]) -> Place:
    return row["shard_index"], row["row"]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None
