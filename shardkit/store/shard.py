"""A shard as a manifest lists it: where it lies, and how it is opened so that its bytes are compared.

`whole` opens one on the word of its manifest entry alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from shardkit.records import Example
from shardkit.records.manifest import ShardEntry
from shardkit.store.arrow_shard import ArrowReader, TableReader
from shardkit.store.blocks import BlockCheck, Verify
from shardkit.store.ranges import RangedCheck
from shardkit.store.row_reader import Content, Stored
from shardkit.store.tar_shard import TarReader, index_path

if TYPE_CHECKING:
    from shardkit.store.dataset import Dataset


class ShardReader(Protocol):
    """Random access to the examples of one shard, whatever its format."""

    num_rows: int

    def example(self, row: int) -> Example: ...

    def image_bytes(self, row: int, image: int) -> memoryview: ...

    def images(self, row: int, numbers: Iterable[int], *, copy: bool = False) -> list[Stored]: ...

    def content(self, row: int, *, copy: bool = False) -> tuple[str, Content, list[Stored]]: ...

    def columns(self, names: Sequence[str], *, rows: range | None = None) -> pa.Table: ...

    def let_go(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRef:
    """A shard of a dataset and where it lies."""

    index: int
    """Place in the dataset's list of shards."""
    entry: ShardEntry
    path: Path
    holder: Dataset
    """The dataset that holds the file: the same, or an input of a view."""

    @property
    def name(self) -> str:
        return self.entry.path

    @property
    def where(self) -> str:
        """Its path or URL, for people."""
        mirror = self.holder.mirror
        return os.path.normpath(self.path) if mirror is None else mirror.name(self.name)

    @property
    def split(self) -> str:
        return self.entry.split

    @property
    def num_rows(self) -> int:
        return self.entry.rows


def open_examples(shard: ShardRef, verify: Verify, *, whole: bool) -> ShardReader:
    """Open a shard of examples.

    Args:
        whole: fetch all of one that lies behind a URL; else only what is asked for.

    Raises:
        IntegrityError: where it is missing, of another size, or its bytes are not those of the manifest.
    """
    check = _check(shard, verify, whole=whole)
    if shard.entry.format == "arrow":
        return ArrowReader(shard.path, check)
    return TarReader(shard.path, check, _check_index(shard, verify))


def open_sequences(shard: ShardRef, verify: Verify, *, whole: bool) -> TableReader:
    """The same for a shard of sequences."""
    return TableReader(shard.path, _check(shard, verify, whole=whole))


def fetch(shard: ShardRef) -> None:
    """Fetch a shard that lies behind a URL into the cache of this host.

    Raises:
        IntegrityError: where it is missing, or not what the manifest says.
    """
    mirror = shard.holder.mirror
    if mirror is not None:
        mirror.opener(shard.entry)(shard.path).close()
        if shard.entry.index_size is not None:
            mirror.opener(shard.entry, index=True)(shard.path).close()


def _check(shard: ShardRef, verify: Verify, *, whole: bool) -> BlockCheck:
    entry, mirror = shard.entry, shard.holder.mirror
    facts: dict[str, Any] = {
        "name": _name(shard, entry.path),
        "size": entry.size,
        "digest": entry.xxh3,
        "blocks": shard.holder.blocks.get(entry.path, []),
        "verify": verify,
        **_source(shard),
    }
    if whole or mirror is None:
        return BlockCheck(**facts)
    return RangedCheck(ranges=lambda: mirror.ranges(entry), **facts)


def _check_index(shard: ShardRef, verify: Verify) -> BlockCheck:
    """Of the index of a tar: small, and compared whole when it is opened."""
    entry = shard.entry
    size, digest = entry.index
    return BlockCheck(
        name=_name(shard, index_path(Path(entry.path)).as_posix()),
        size=size,
        digest=digest,
        blocks=shard.holder.blocks.get(entry.path, []),
        verify="off" if verify == "off" else "open",
        **_source(shard, index=True),
    )


def _name(shard: ShardRef, relative: str) -> str:
    mirror = shard.holder.mirror
    return str(shard.holder.path / relative) if mirror is None else mirror.name(relative)


def _source(shard: ShardRef, *, index: bool = False) -> dict[str, Any]:
    """Where the bytes of a shard come from, and who is told that they are damaged; nothing for one on disk."""
    mirror = shard.holder.mirror
    return {} if mirror is None else {"opener": mirror.opener(shard.entry, index=index), "damaged": mirror.damaged}
