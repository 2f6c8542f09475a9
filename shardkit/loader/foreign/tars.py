"""WebDataset tars, as they lie there: members of one key side by side, the key ends at the first dot of the file name."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from shardkit.errors import ConfigError, SourceError
from shardkit.loader.foreign.sample import Sample, Unusable
from shardkit.store.tar_walk import Damaged, Member, walk

IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jfif")
"""Last parts of the extensions that are images; `KEY.0.jpg`, `KEY.1.jpg` are several of one sample, in their order."""

Members = dict[str, tuple[int, int]]
"""Extension -> offset and size in bytes."""


@dataclass(kw_only=True, slots=True)
class _Tar:
    path: Path
    keys: list[str] = field(default_factory=list)
    samples: list[Members] = field(default_factory=list)
    unusable: dict[int, str] = field(default_factory=dict)
    """Row -> what is wrong with its members."""


class WebDatasetTars:
    """Samples of some tars, uncompressed and on this machine. Making one reads their headers.

    Args:
        text: extension of the text, such as txt; or json:FIELD for a field of a JSON member.
        name: of the source.

    Raises:
        ConfigError: where there is none.
        SourceError: where a tar is cut, damaged, or has the members of one key in several places.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], *, text: str = "txt", name: str = "webdataset") -> None:
        if isinstance(paths, (str, os.PathLike)) or not paths:
            raise ConfigError(
                f"the tars are {paths!r}, not a list of paths",
                hint='give a list, such as sorted(Path("pairs").glob("*.tar"))',
            )
        self.name = name
        self._text, _, self._field = text.partition(":")
        self._tars = [_index(Path(path)) for path in paths]
        names = [tar.path.name for tar in self._tars]
        if len(set(names)) < len(names):  # as of x/0.tar and y/0.tar
            common = os.path.commonpath([tar.path.absolute().parent for tar in self._tars])
            names = [tar.path.absolute().relative_to(common).as_posix() for tar in self._tars]
        self._names = names
        self._maps: dict[int, mmap.mmap] = {}
        self._process = os.getpid()

    @property
    def num_rows(self) -> list[int]:
        return [len(tar.keys) for tar in self._tars]

    @property
    def identity(self) -> dict[str, Any]:
        facts = zip(self._names, self._tars, strict=True)
        files = [[name, tar.path.stat().st_size, len(tar.keys)] for name, tar in facts]
        return {"format": "webdataset", "name": self.name, "text": [self._text, self._field], "files": files}

    def sample(self, shard: int, row: int) -> Sample:
        tar = self._tars[shard]
        if row in tar.unusable:
            raise Unusable("unsafe_member", tar.unusable[row])
        members = tar.samples[row]
        images = sorted((name for name in members if name.rpartition(".")[2].lower() in IMAGES), key=_number)
        return Sample(
            key=f"{self._names[shard]}/{tar.keys[row]}",
            text=self._text_of(shard, row),
            images=tuple(self._bytes(shard, *members[name]) for name in images),
        )

    def place(self, shard: int, row: int) -> str:
        return f"{self._tars[shard].path}:{self._tars[shard].keys[row]}"

    def _text_of(self, shard: int, row: int) -> str:
        member = self._tars[shard].samples[row].get(self._text)
        if member is None:
            raise Unusable("no_text", f"the sample has no member {self._text}")
        data = bytes(self._bytes(shard, *member))
        try:
            text = orjson.loads(data)[self._field] if self._field else data.decode()
        except (ValueError, KeyError, TypeError) as error:
            raise Unusable("no_text", f"its member {self._text} gives no text ({error!r})") from error
        if not isinstance(text, str):
            raise Unusable("no_text", f"its member {self._text} has {text!r:.100} for {self._field}, which is no text")
        return text

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
    return (int(first) if first.isdecimal() and len(first) < 19 else -1, extension)


def _index(path: Path) -> _Tar:
    """The samples of a tar.

    Raises:
        SourceError: where it is cut or damaged, or has the members of one key in several places.
    """
    tar = _Tar(path=path)
    seen: set[str] = set()
    for member in _members(path):
        folder, _, file = member.name.rpartition("/")
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
        known = tar.samples[-1]
        if member.unsafe or extension in known:
            what = f"is {member.unsafe}" if member.unsafe else "is there twice"
            tar.unusable.setdefault(len(tar.keys) - 1, f"its member {member.name} {what}")
        known[extension] = (member.offset, member.size)
    return tar


def _members(path: Path) -> Iterator[Member]:
    """Every member; a tar must end as tars do, or something behind the last one is lost."""
    try:
        with path.open("rb") as file:
            yield from walk(_Forwards(file), size=os.fstat(file.fileno()).st_size)
    except FileNotFoundError as error:
        raise SourceError("no such tar", where=str(path), hint="check the path") from error
    except Damaged as error:
        raise SourceError(
            f"the tar is cut or damaged at byte {error.place}: {error.what}",
            where=str(path),
            hint="restore the file; what a cut tar still holds is not told from a whole one. One that is compressed has "
            "to be unpacked first",
        ) from error
    except OSError as error:
        raise SourceError(
            f"the tar cannot be read ({error.strerror})", where=str(path), hint="check the path and its permissions"
        ) from error


class _Forwards:
    """A file, read and skipped forwards."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    @property
    def position(self) -> int:
        return self._file.tell()

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def skip_to(self, position: int) -> None:
        self._file.seek(position)
