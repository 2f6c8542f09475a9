"""MDS shards, as mosaicml-streaming writes them: number of samples, offsets, JSON of the columns, samples.

    u32 n | u32 offsets[n + 1] | {"column_names": [...], "column_encodings": [...], "column_sizes": [...]} | samples
    sample: u32 size of each column without a fixed one | the values of all columns

Whole shards may be compressed. `index.json` beside them has sizes and digests, which are compared where it is there.

    plan    file -> slices of whole samples            (parent)
    chunks  slice -> samples as bytes                  (parent)
    records chunk -> rows and exclusions               (worker)
"""

from __future__ import annotations

import hashlib
import mmap
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import xxhash

from shardkit.errors import SourceError
from shardkit.prepare.ingest.columns import Required, check_columns
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers import mds_values
from shardkit.prepare.ingest.containers.streams import Damaged, Opener, Stream
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.record import Record, exclusion
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import CHUNK_BYTES, CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

INDEX = "index.json"
_MOST = 1 << 32
"""Bytes of a shard: its offsets have 32 bits."""
_MOST_INDEX = 256 << 20
_BLOCK = 1 << 20

Columns = tuple[tuple[str, str, "int | None"], ...]
"""(name, encoding, size in bytes where it is fixed)"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Shard:
    data: mmap.mmap | bytes
    """All of it, unpacked: the file itself, or an unnamed one that goes with this object."""
    columns: Columns
    offsets: npt.NDArray[np.int64]
    """[n + 1] where each sample begins, and the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MdsChunk:
    input: str
    folder: str
    first: int
    """Number of the first sample, from 1."""
    columns: Columns
    samples: tuple[bytes, ...]


def check(file: InputFile, required: Required, config: IngestConfig) -> None:
    """Refuse a shard that is cut or damaged, has a column that cannot be read, or lacks one that is needed.

    Raises:
        SourceError: with what is there.
    """
    shard = _open(file)
    check_columns(file, tuple(name for name, _, _ in shard.columns), required, config)


def plan(file: InputFile, config: IngestConfig, opener: Opener) -> Iterator[Slice]:
    """Slices of at most `config.unit_size` bytes of whole samples."""
    offsets = opener.remember(file.name, lambda: _open(file)).offsets
    start, count = 0, len(offsets) - 1
    while start < count:
        end = int(np.searchsorted(offsets, offsets[start] + config.unit_size, side="right")) - 1
        end = min(max(end, start + 1), count)
        yield Slice(container="mds", file=file, start=start, end=end, size=int(offsets[end] - offsets[start]))
        start = end
    if not count:
        yield Slice(container="mds", file=file)


def chunks(piece: Slice, _config: IngestConfig, opener: Opener) -> Iterator[MdsChunk]:
    """The samples of a slice."""
    shard = opener.remember(piece.file.name, lambda: _open(piece.file))
    offsets = shard.offsets
    start = piece.start
    while start < piece.end:
        end = int(np.searchsorted(offsets, offsets[start] + CHUNK_BYTES, side="right")) - 1
        end = min(max(end, start + 1), start + CHUNK_RECORDS, piece.end)
        places = offsets[start : end + 1].tolist()
        yield MdsChunk(
            input=piece.file.name,
            folder=piece.file.name.rpartition("/")[0],
            first=start + 1,
            columns=shard.columns,
            samples=tuple(bytes(shard.data[a:b]) for a, b in pairwise(places)),
        )
        start = end


def records(chunk: MdsChunk, config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """Rows and exclusions of a chunk in order."""
    for number, sample in enumerate(chunk.samples, chunk.first):
        try:
            row = _row(sample, chunk.columns)
        except Bad as bad:
            yield exclusion(chunk.input, str(number), bad.reason, bad.detail)
            continue
        yield Record(
            input=chunk.input, position=str(number), value=config.with_split(chunk.input, row), folder=chunk.folder
        )


def _row(sample: bytes, columns: Columns) -> dict[str, Any]:
    """The values of a sample by column.

    Raises:
        Bad: where it is not what the columns say.
    """
    unsized = sum(size is None for _, _, size in columns)
    if len(sample) < 4 * unsized:
        raise Bad("wrong_type", f"a sample of {len(sample)} bytes is too short for its {len(columns)} columns")
    given = iter(np.frombuffer(sample[: 4 * unsized], "<u4").tolist())
    sizes = [next(given) if size is None else size for _, _, size in columns]
    place = 4 * unsized
    if place + sum(sizes) != len(sample):
        raise Bad("wrong_type", f"a sample of {len(sample)} bytes has columns of {place + sum(sizes)}")
    row = {}
    for (name, encoding, _), size in zip(columns, sizes, strict=True):
        try:
            row[name] = mds_values.decoded(encoding, sample[place : place + size])
        except Bad as bad:
            raise Bad(bad.reason, f"{plain(name, 40)}: {bad.detail}") from None
        place += size
    return row


# --------------------------------------------------------------------------- opening
def _open(file: InputFile) -> _Shard:
    """The head of a shard, compared with the index beside it.

    Raises:
        SourceError: where it is not whole, or not of this form.
    """
    entry = _entry(file)
    data = _unpacked(file, entry)
    if len(data) < 8:
        _refused(file, f"{len(data)} bytes are no MDS shard")
    (count,) = np.frombuffer(data[:4], "<u4").tolist()
    if entry is not None and entry.get("samples") != count:
        _refused(file, f"it has {count} samples, {INDEX} says {entry.get('samples')}")
    head = 4 * (count + 2)
    if head > len(data):
        _refused(file, f"the shard of {len(data)} bytes is too short for {count} samples")
    offsets = np.frombuffer(data[4:head], "<u4").astype(np.int64)
    if offsets[-1] != len(data) or offsets[0] < head or (np.diff(offsets) < 0).any():
        _refused(file, f"the offsets of {count} samples do not fit its {len(data)} bytes; it may be cut off")
    return _Shard(data=data, columns=_columns(file, data[head : offsets[0]]), offsets=offsets)


def _columns(file: InputFile, text: bytes) -> Columns:
    try:
        config = orjson.loads(text)
        names, encodings, sizes = (config[f"column_{part}"] for part in ("names", "encodings", "sizes"))
        columns = tuple(zip(names, encodings, sizes, strict=True))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        _refused(file, "its head does not say what its columns are")
    for name, encoding, size in columns:
        if not (isinstance(name, str) and isinstance(encoding, str) and (size is None or type(size) is int)):
            _refused(file, "its head does not say what its columns are")
        if encoding == mds_values.UNSAFE:
            raise SourceError(
                f"column {plain(name, 40)} holds pickled objects (pkl), and reading one runs what is in it",
                where=file.name,
                hint="write the set again with json, str, bytes, jpeg or another plain encoding for it",
            )
        if not mds_values.known(encoding) or (size is not None and size < 0):
            raise SourceError(
                f"column {plain(name, 40)} has the encoding {plain(encoding, 40)}, which is not read",
                where=file.name,
                hint="write the set again with another encoding for it",
            )
    if len({name for name, _, _ in columns}) != len(columns):
        _refused(file, "it names a column twice")
    return columns


def _entry(file: InputFile) -> dict[str, Any] | None:
    """What the index beside a shard says of it; None without an index."""
    index = next((one for one in file.beside if os.path.basename(one.path) == INDEX), None)
    if index is None:
        return None
    state = os.stat(index.path)
    entry = _entries(index, state.st_mtime_ns).get(os.path.basename(file.path))
    if entry is not None:
        return entry
    raise SourceError(
        f"{INDEX} beside the shard does not name it",
        where=file.name,
        hint="name only shards of the set, or move the index away to read the shard without it",
    )


@lru_cache(maxsize=1)
def _entries(index: InputFile, _changed: int) -> dict[str, dict[str, Any]]:
    """What an index says, by the name of each file: a set of thousands of shards would else be parsed for each of them."""
    return {
        os.path.basename(entry[part]["basename"]): {**entry, "part": part}
        for entry in reversed(read_index(index))
        for part in ("zip_data", "raw_data")
        if entry.get(part)
    }


def index_beside(shard: InputFile) -> tuple[InputFile, ...]:
    """The index of the folder that a shard lies in, where there is one."""
    path = os.path.join(os.path.dirname(shard.path), INDEX)
    if not os.path.isfile(path):
        return ()
    above = shard.name.rpartition("/")[0]
    return (InputFile(name=f"{above}/{INDEX}" if above else INDEX, path=path, size=os.path.getsize(path)),)


def read_index(index: InputFile) -> list[dict[str, Any]]:
    """The shards that an index lists.

    Raises:
        SourceError: where it is no index of MDS shards.
    """
    if index.size > _MOST_INDEX:
        _refused(index, f"an index of {index.size} bytes")
    with open_input(index.path, index.name) as handle:
        data = handle.read(_MOST_INDEX)
    try:
        body = orjson.loads(data)
        shards = body["shards"]
        for shard in shards:
            if shard["format"] != "mds" or shard["version"] != 2:
                _refused(index, f"it lists shards of format {shard['format']} {shard['version']}; mds 2 is read")
            for part in ("raw_data", "zip_data"):
                if shard[part] is not None:
                    if not isinstance(shard[part]["basename"], str) or type(shard[part]["bytes"]) is not int:
                        raise TypeError(part)
                    dict(shard[part].get("hashes") or {})
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        _refused(index, "it is no index of MDS shards")
    found: list[dict[str, Any]] = shards
    return found


def _unpacked(file: InputFile, entry: dict[str, Any] | None) -> mmap.mmap | bytes:
    """The bytes of a shard, unpacked where it is compressed, and compared with the index."""
    if entry is not None:
        _compare(file, entry[entry["part"]])
    raw_size = entry["raw_data"]["bytes"] if entry is not None else None
    if file.path.endswith(".mds"):
        return _mapped(file)
    most = _MOST if raw_size is None else min(raw_size, _MOST)
    with tempfile.TemporaryFile() as unpacked:
        size = 0
        try:
            for block in _blocks(file, raw_size):
                size += len(block)
                if size > most:
                    _refused(file, f"it unpacks to more than {most} bytes")
                unpacked.write(block)
        except (Damaged, pa.ArrowException, OSError) as error:
            _refused(file, f"the compressed shard is damaged or cut off ({getattr(error, 'what', error)})")
        unpacked.flush()
        if raw_size is not None and size != raw_size:
            _refused(file, f"it unpacks to {size} bytes, {INDEX} says {raw_size}")
        return mmap.mmap(unpacked.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def _mapped(file: InputFile) -> mmap.mmap | bytes:
    with open_input(file.path, file.name) as handle:
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) if file.size > 0 else b""


def _blocks(file: InputFile, raw_size: int | None) -> Iterator[bytes]:
    """The unpacked bytes of a compressed shard: gzip, bzip2 and zstd by their content, the others by their name."""
    with open_input(file.path, file.name) as handle:
        if file.path.endswith(".br"):
            stream = pa.CompressedInputStream(pa.PythonFile(handle, mode="r"), "brotli")
            while block := stream.read(_BLOCK):
                yield block
            return
        if file.path.endswith(".snappy"):
            if raw_size is None:
                _refused(file, f"a snappy shard needs {INDEX} beside it, which has its size")
            yield bytes(pa.Codec("snappy").decompress(handle.read(), decompressed_size=raw_size))
            return
    whole = Stream(file)
    try:
        while block := whole.read(_BLOCK):
            yield block
    finally:
        whole.close()


def _compare(file: InputFile, stated: dict[str, Any]) -> None:
    """Compare a file with its size and the digests in the index; those that nobody here can compute are passed over."""
    if file.size != stated["bytes"]:
        _refused(file, f"the file has {file.size} bytes, {INDEX} says {stated['bytes']}")
    for name, digest in dict(stated.get("hashes") or {}).items():
        if name in hashlib.algorithms_guaranteed and not name.startswith("shake"):
            found = hashlib.new(name, usedforsecurity=False)
        elif name in xxhash.algorithms_available:
            found = getattr(xxhash, name)()
        else:
            continue
        with open_input(file.path, file.name) as handle:
            while block := handle.read(_BLOCK):
                found.update(block)
        if found.hexdigest() != digest:
            _refused(file, f"its {name} is {found.hexdigest()}, {INDEX} says {plain(str(digest), 80)}")


def _refused(file: InputFile, what: str) -> NoReturn:
    raise SourceError(what, where=file.name, hint="fetch or write the file again")
