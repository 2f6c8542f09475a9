"""What a stage commits last: inputs, recipe, shards, counts. docs/formats.md has the form in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from shardkit.digest import canonical_json, fingerprint, sha256, xxh3

SCHEMA_VERSION = 1

Totals = dict[str, int]
"""Counted units by name: examples, images, pixels, tokens, bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardEntry:
    path: str
    """Relative to the folder of the dataset that holds it."""
    split: str
    format: str
    """arrow | tar; sequences for what tokenize writes."""
    rows: int
    size: int
    xxh3: str
    counts: Totals
    dataset: str | None = None
    """Id of the dataset that holds the file; None where it is this one."""
    index_size: int | None = None
    index_xxh3: str | None = None
    """Size and digest of `<path>.index.arrow`, beside a tar."""

    @property
    def index(self) -> tuple[int, str]:
        """Size and digest of the index of a tar."""
        assert self.index_size is not None, "a tar shard has an index"
        assert self.index_xxh3 is not None, "a tar shard has an index"
        return self.index_size, self.index_xxh3


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEntry:
    path: str
    rows: int
    rows_xxh3: str
    """Digest of the rows: xxh3-128 over one line of canonical JSON a row. The digest of the file's bytes stands in
    produced_by, because another writer version may lay equal rows out in other bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    path: str
    size: int
    xxh3: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    stage: str
    recipe: Mapping[str, Any]
    format_versions: Mapping[str, Any]
    inputs: tuple[str, ...] = ()
    """Ids of the datasets that the stage read; for ingest the named raw inputs, relative to the input root (the files that
    were read are listed with their digests in tables/inputs.parquet)."""
    splits: tuple[str, ...] = ("all",)
    shards: tuple[ShardEntry, ...] = ()
    sequences: tuple[ShardEntry, ...] = ()
    tables: tuple[TableEntry, ...] = ()
    files: tuple[FileEntry, ...] = ()
    counts: Mapping[str, Any] = field(default_factory=dict)
    """read, kept, excluded, excluded_by_reason, changes."""
    totals: Mapping[str, Mapping[str, Totals]] = field(default_factory=dict)
    """by_split and by_source: examples, images, pixels, tokens, bytes."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What the stage found, for people and later stages."""
    produced_by: Mapping[str, Any] = field(default_factory=dict)
    """Tool versions, durations, byte digests of tables. Outside the id."""
    locations: Mapping[str, str] = field(default_factory=dict)
    """Dataset id -> relative path of a referenced input. Outside the id."""
    schema_version: int = SCHEMA_VERSION

    def identity(self) -> dict[str, Any]:
        """What enters the dataset id."""
        body = {one.name: getattr(self, one.name) for one in fields(self)}
        del body["produced_by"], body["locations"]
        for name in ("shards", "sequences", "tables", "files"):
            body[name] = [{one.name: getattr(entry, one.name) for one in fields(entry)} for entry in body[name]]
        body["fingerprint"] = fingerprint(self.recipe)
        return body

    @property
    def dataset_id(self) -> str:
        """sha256 of the canonical JSON of `identity`, 64 hex digits."""
        return sha256(canonical_json(self.identity()))

    def outside(self) -> str:
        """xxh3-128 over what does not enter the id, so that damage there is found too."""
        produced_by = {key: value for key, value in self.produced_by.items() if key != "check"}
        return xxh3(canonical_json([produced_by, dict(self.locations)]))

    def to_json(self) -> bytes:
        identity = self.identity()
        body = {
            **identity,
            "dataset_id": sha256(canonical_json(identity)),
            "produced_by": {**self.produced_by, "check": self.outside()},
            "locations": dict(self.locations),
        }
        return canonical_json(body) + b"\n"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        """The manifest that `body` describes; ids and digests are not compared here.

        Raises:
            KeyError, TypeError: where it has not the form of a manifest.
        """
        fields = {k: v for k, v in body.items() if k not in ("dataset_id", "fingerprint")}
        return cls(
            **{
                **fields,
                "inputs": tuple(fields["inputs"]),
                "splits": tuple(fields["splits"]),
                "shards": tuple(ShardEntry(**entry) for entry in fields["shards"]),
                "sequences": tuple(ShardEntry(**entry) for entry in fields["sequences"]),
                "tables": tuple(TableEntry(**entry) for entry in fields["tables"]),
                "files": tuple(FileEntry(**entry) for entry in fields["files"]),
            }
        )


def listed_files(manifest: Manifest) -> Iterator[str]:
    """Relative paths of all files of a dataset but manifest.json itself; those of other datasets are not among them."""
    for shard in (*manifest.shards, *manifest.sequences):
        if shard.dataset is None:
            yield shard.path
            if shard.index_size is not None:
                yield f"{shard.path}.index.arrow"
    yield from (table.path for table in manifest.tables)
    yield from (file.path for file in manifest.files)
