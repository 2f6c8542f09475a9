"""What servers say of the shards behind a URL, in states: an object that changed since is told by name.

Its bytes are compared with the manifest before they are delivered, as ever; but what is gone there can only come from
the cache of a host, so no host can promise it to another.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from shardkit.digest import xxh3
from shardkit.loader.state import OBJECT, Difference
from shardkit.store.dataset import Dataset
from shardkit.store.shard import ShardRef

MAX_SHARDS = 4000
"""Of more shards a state has one digest: it stays small."""
_MARK_BYTES = 4


def etag_marks(dataset: Dataset) -> dict[str, Any] | None:
    """What a state says of the ETags of all shards; None where no server told any."""
    tags = [_etag(shard) for shard in _remote_shards(dataset)]
    if not any(tags):
        return None
    if len(tags) > MAX_SHARDS:
        return {"number": len(tags), "digest": xxh3("\n".join(tags).encode())}
    return {"number": len(tags), "marks": base64.b64encode(b"".join(map(_mark, tags))).decode()}


def changed_objects(dataset: Dataset, saved: Mapping[str, Any] | None) -> list[Difference]:
    """The shards whose ETag is another than when a state was saved for the same dataset."""
    now = etag_marks(dataset)
    if not saved or not now or saved == now:
        return []
    shards = list(_remote_shards(dataset))
    if "marks" not in saved or "marks" not in now or saved["number"] != len(shards):
        return [Difference(name=f"{OBJECT}s below {dataset.where}", saved=saved.get("digest"), now=now.get("digest"))]
    before = base64.b64decode(saved["marks"])
    return [
        Difference(
            name=f"{OBJECT} {shard.holder.mirror.name(shard.name)}" if shard.holder.mirror else OBJECT,
            saved=f"ETag {mark.hex()}",
            now=f"ETag {_mark(_etag(shard)).hex()} ({_etag(shard)})",
        )
        for place, shard in enumerate(shards)
        if any(mark := before[place * _MARK_BYTES : (place + 1) * _MARK_BYTES]) and mark != _mark(_etag(shard))
    ]


def _remote_shards(dataset: Dataset) -> Iterator[ShardRef]:
    return (shard for shard in (*dataset.sequence_shards, *dataset.shards) if shard.holder.mirror is not None)


def _etag(shard: ShardRef) -> str:
    mirror = shard.holder.mirror
    return "" if mirror is None else mirror.etags.get(shard.name, "")


def _mark(etag: str) -> bytes:
    """Zeros for none."""
    return bytes.fromhex(xxh3(etag.encode())[: 2 * _MARK_BYTES]) if etag else bytes(_MARK_BYTES)
