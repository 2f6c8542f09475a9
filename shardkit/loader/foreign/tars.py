"""WebDataset tars, as they lie there: members of one key side by side, the key ends at the first dot of the file name."""

from __future__ import annotations

import json
import mmap
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardkit.errors import SourceError
from shardkit.loader.foreign.sample import Sample

IMAGES = ("jpg", "jpeg", "png", "webp")
"""Last parts of the extensions that are images; `KEY.0.jpg`, `KEY.1.jpg` are several of one sample, in their order."""
_BLOCK = 512

Members = dict[str, tuple[int, int]]
"""Extension -> offset and size in bytes."""


@dataclass(kw_only=True, slots=True)
class _Tar:
    path: Path
    keys: list[str] = field(default_factory=list)
    samples: list[Members] = field(default_factory=list)


class WebDatasetTars:
    """Samples of some tars, uncompressed and on this machine. Making one reads their headers.

    Args:
        text: extension of the text, such as txt; or json:FIELD for a field of a JSON member.
        name: of the source.

    Raises:
        SourceError: where a tar is cut, damaged, or has the members of one key in several places.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], *, text: str = "txt", name: str = "webdataset") -> None:
        self.name = name
        self._text, _, self._field = text.partition(":")
        self._tars = [_index(Path(path)) for path in paths]
        self._maps: dict[int, mmap.mmap] = {}
        self._process = os.getpid()

    @property
    def num_rows(self) -> list[int]:
        return [len(tar.keys) for tar in self._tars]

    @property
    def identity(self) -> dict[str, Any]:
        files = [[tar.path.name, tar.path.stat().st_size, len(tar.keys)] for tar in self._tars]
        return {"format": "webdataset", "name": self.name, "text": [self._text, self._field], "files": files}

    def sample(self, shard: int, row: int) -> Sample:
        tar = self._tars[shard]
        members = tar.samples[row]
        images = sorted((name for name in members if name.rpartition(".")[2].lower() in IMAGES), key=_number)
        return Sample(
            key=f"{tar.path.name}/{tar.keys[row]}",
            text=self._text_of(shard, row),
            images=tuple(self._bytes(shard, *members[name]) for name in images),
        )

    def place(self, shard: int, row: int) -> str:
        return f"{self._tars[shard].path}:{self._tars[shard].keys[row]}"

    def _text_of(self, shard: int, row: int) -> str:
        member = self._tars[shard].samples[row].get(self._text)
        if member is None:
            raise SourceError(
                f"the sample has no member {self._text}",
                where=self.place(shard, row),
                hint="name the extension of the texts with text=",
            )
        data = bytes(self._bytes(shard, *member))
        try:
            text = json.loads(data)[self._field] if self._field else data.decode()
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(
                f"its member {self._text} gives no text ({error!r})",
                where=self.place(shard, row),
                hint="name the extension and the field of the texts with text=json:FIELD",
            ) from error
        return str(text)

    def _bytes(self, shard: int, offset: int, size: int) -> memoryview:
        if self._process != os.getpid():
            self._maps, self._process = {}, os.getpid()
        if shard not in self._maps:
            path = self._tars[shard].path
            try:
                with path.open("rb") as file:
                    self._maps[shard] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except OSError as error:
                raise SourceError(
                    f"the tar cannot be read ({error.strerror})", where=str(path), hint="restore the file"
                ) from error
        if offset + size > len(self._maps[shard]):
            raise SourceError(
                "the tar became shorter since it was opened", where=str(self._tars[shard].path), hint="restore the file"
            )
        return memoryview(self._maps[shard])[offset : offset + size]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_maps": {}}


def _number(extension: str) -> tuple[int, str]:
    first = extension.split(".", maxsplit=1)[0]
    return (int(first) if first.isdecimal() else -1, extension)


def _index(path: Path) -> _Tar:
    tar = _Tar(path=path)
    seen: set[str] = set()
    for name, offset, size in _members(path):
        folder, _, file = name.rpartition("/")
        stem, _, extension = file.partition(".")
        key = f"{folder}/{stem}" if folder else stem
        if not tar.keys or tar.keys[-1] != key:
            if key in seen:
                raise SourceError(
                    f"the members of the key {key!r} lie in several places",
                    where=str(path),
                    hint="write the tar anew, the members of each key side by side",
                )
            seen.add(key)
            tar.keys.append(key)
            tar.samples.append({})
        tar.samples[-1][extension] = (offset, size)
    return tar


def _members(path: Path) -> Iterator[tuple[str, int, int]]:
    """(name, offset, size) of each file; the tar must end as tars do, or something behind the last one is lost."""
    hint = "restore the file; what a cut tar still holds is not told from a whole one"
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, member.offset_data, member.size
            end, size = tar.offset, path.stat().st_size
        with path.open("rb") as file:
            file.seek(end)
            rest = file.read(_BLOCK)
    except FileNotFoundError as error:
        raise SourceError("no such tar", where=str(path), hint="check the path") from error
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SourceError(f"the tar cannot be read ({error})", where=str(path), hint=hint) from error
    if end > size or len(rest) < _BLOCK:
        raise SourceError("the tar is cut: it has no end mark", where=str(path), hint=hint)
    if any(rest):
        raise SourceError(
            f"the tar is damaged: at byte {end} is neither a header nor its end", where=str(path), hint=hint
        )
