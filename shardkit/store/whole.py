"""Reading a shard on the word of its manifest entry alone: the whole file is compared, no table is asked.

A table of row blocks could have been left as it was while a shard was rewritten; an audit does not rely on it.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from shardkit.errors import IntegrityError
from shardkit.store.arrow_shard import ArrowReader, TableReader
from shardkit.store.blocks import BlockCheck
from shardkit.store.files import check_file
from shardkit.store.rows import Block
from shardkit.store.shard import ShardReader, ShardRef
from shardkit.store.tar_shard import TarReader, index_path


def open_whole(shard: ShardRef, *, compare: bool = True) -> ShardReader:
    """Open a shard after its whole file, and the index of a tar, were compared with the manifest.

    Args:
        compare: False where this was done before; the sizes are compared still.

    Raises:
        IntegrityError: where they differ, or hold another number of rows.
    """
    entry = shard.entry
    if compare:
        check_file(shard.path, size=entry.size, digest=entry.xxh3)
    reader: ShardReader
    if entry.format == "arrow":
        reader = ArrowReader(shard.path, _check(shard.path, entry.size, entry.xxh3, _blocks(shard.path)))
    else:
        index_size, index_digest = entry.index
        index = index_path(shard.path)
        if compare:
            check_file(index, size=index_size, digest=index_digest)
        blocks = _blocks(index)
        reader = TarReader(
            shard.path,
            _check(shard.path, entry.size, entry.xxh3, blocks),
            _check(index, index_size, index_digest, blocks),
        )
    _counted(shard, reader.num_rows)
    return reader


def open_whole_sequences(shard: ShardRef) -> TableReader:
    """As `open_whole`, of a shard of sequences."""
    entry = shard.entry
    check_file(shard.path, size=entry.size, digest=entry.xxh3)
    reader = TableReader(shard.path, _check(shard.path, entry.size, entry.xxh3, _blocks(shard.path)))
    _counted(shard, reader.num_rows)
    return reader


def _counted(shard: ShardRef, num_rows: int) -> None:
    if num_rows != shard.num_rows:
        raise IntegrityError(
            f"the shard holds {num_rows} rows, the manifest says {shard.num_rows}",
            where=str(shard.path),
            hint="restore the file, or build the dataset again from its inputs",
        )


def _blocks(path: Path) -> list[Block]:
    """The record batches of a file as blocks; they were compared with the file already."""
    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            sizes = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]
    except (pa.ArrowInvalid, OSError) as error:
        raise IntegrityError(
            f"the file is not a readable shard ({error})", where=str(path), hint="build the dataset again"
        ) from error
    return [
        Block(first_row=sum(sizes[:index]), num_rows=size, offset=0, size=0, xxh3="")
        for index, size in enumerate(sizes)
    ]


def _check(path: Path, size: int, digest: str, blocks: list[Block]) -> BlockCheck:
    return BlockCheck(name=str(path), size=size, digest=digest, blocks=blocks, verify="off")
