"""MATLAB files (.mat, version 5): cells of one entry a picture, read with scipy, which is an extra.

plan    file -> one slice                      (parent)
chunks  slice -> up to 256 entries each        (parent)
records chunk -> entries                       (worker)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.columns import Required
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.documents import Entry
from shardkit.prepare.ingest.containers.streams import Opener
from shardkit.prepare.ingest.record import Record, refused
from shardkit.prepare.ingest.roots import open_input
from shardkit.prepare.ingest.units import CHUNK_RECORDS, InputFile, Slice
from shardkit.records import Exclusion

NAMES = ("imnames", "wordBB", "txt")
"""Variables that are read; the boxes of characters, which are most of such a file, are not."""

_MAGIC = b"MATLAB 5.0 MAT-file"


@dataclass(frozen=True, kw_only=True, slots=True)
class MatChunk:
    input: str
    folder: str
    entries: tuple[Entry, ...]


def check(file: InputFile, _required: Required, _config: IngestConfig) -> None:
    """Refuse a file of another kind, and any such file where scipy is not installed.

    Raises:
        ConfigError: without scipy.
        SourceError: for another kind.
    """
    try:
        import scipy.io  # noqa: F401 - an extra, and only these files need it
    except ImportError:
        raise ConfigError(
            "files of MATLAB are read with scipy, which is not installed",
            where=file.name,
            hint="install it: pip install 'shardkit[mat]'",
        ) from None
    with open_input(file.path, file.name) as handle:
        head = handle.read(len(_MAGIC))
    if head != _MAGIC:
        is_newer = head.startswith(b"MATLAB 7.3")
        raise SourceError(
            "a MATLAB file of version 7.3, which is HDF5 inside and is not read"
            if is_newer
            else "no MATLAB file of version 5",
            where=file.name,
            hint="save it again with version 5 (-v7 in MATLAB, scipy.io.savemat in Python)",
        )


def plan(file: InputFile, _config: IngestConfig, _opener: Opener) -> Iterator[Slice]:
    """The whole file: its cells have no borders that could be found without reading it."""
    yield Slice(container="mat", file=file, end=-1, size=file.size)


def chunks(piece: Slice, _config: IngestConfig, _opener: Opener) -> Iterator[MatChunk]:
    """The entries of a file, a few hundred at a time.

    Raises:
        SourceError: where it is damaged, or its variables do not agree in number.
    """
    import zlib

    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    name = piece.file.name
    with open_input(piece.file.path, name) as handle:
        try:
            held = loadmat(handle, variable_names=NAMES, chars_as_strings=True)
        except (MatReadError, OSError, ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
            raise refused(name, f"the MATLAB file is damaged: {type(error).__name__}") from error
    missing = [each for each in NAMES if each not in held]
    if missing:
        raise refused(name, f"the MATLAB file has no variable {', '.join(missing)}")
    columns = [held[each].ravel() for each in NAMES]
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1:
        said = ", ".join(f"{each} {count}" for each, count in zip(NAMES, counts, strict=True))
        raise refused(name, f"the variables have different lengths ({said})")
    folder = name.rpartition("/")[0]
    for start in range(0, counts[0], CHUNK_RECORDS):
        rows = zip(*(column[start : start + CHUNK_RECORDS] for column in columns), strict=True)
        yield MatChunk(
            input=name,
            folder=folder,
            entries=tuple(
                Entry(position=str(start + k + 1), value=dict(zip(NAMES, map(plain_value, row), strict=True)))
                for k, row in enumerate(rows)
            ),
        )


def plain_value(cell: Any) -> Any:
    """A cell as Python has it: a list of texts, or lists of numbers, dimension by dimension."""
    array = np.asarray(cell)
    if array.dtype == object:
        return [plain_value(inner) for inner in array.ravel()]
    return array.tolist()


def records(chunk: MatChunk, _config: IngestConfig) -> Iterator[Record | Exclusion | Counter[str]]:
    """The entries of a chunk."""
    for entry in chunk.entries:
        yield Record(input=chunk.input, position=entry.position, value=entry.value, folder=chunk.folder)
