"""Which files a run reads: the PATHs of the command line, folders walked in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.pairs import part
from shardkit.prepare.ingest.containers.streams import Damaged, Stream
from shardkit.prepare.ingest.roots import Roots
from shardkit.prepare.ingest.units import InputFile

SUFFIXES = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".tar": "tar", ".tgz": "tar", ".csv": "table",
    ".tsv": "table",
}  # fmt: skip
"""Suffix -> container; .gz, .zst and .bz2 behind it are looked through."""
_COMPRESSED = (".gz", ".zst", ".bz2")
_ORDER = ("tar", "table", "parquet", "jsonl")
"""Of the containers in one folder, the first kind that the format takes is read; the others stand beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    roots: Roots
    inputs: tuple[tuple[str, InputFile], ...]
    """(container, file), in the order of names; for folders of pairs one entry ("files", the root)."""
    files: tuple[InputFile, ...]
    """The files below folders of pairs."""
    ignored: int
    """Files below the PATHs that the format has no use for."""

    @property
    def names(self) -> list[str]:
        """What a rerun must be given again."""
        return sorted(file.name for _, file in self.inputs)


def list_inputs(config: IngestConfig, containers: tuple[str, ...], labels: tuple[str, ...]) -> Listing:
    """The inputs of a run.

    Raises:
        SourceError: where a PATH is missing or of no kind that the format takes.
    """
    places = sorted({_existing(path) for path in config.paths})
    root = _common(places)
    roots = Roots(
        input_root=root,
        images=tuple(_folder(path) for path in config.images),
        maps=tuple(os.path.dirname(os.path.realpath(path)) for path in config.url_maps),
    )
    found: dict[str, tuple[str, InputFile]] = {}
    pairs: dict[str, InputFile] = {}
    ignored = 0
    for place in places:
        is_folder = os.path.isdir(place)
        below = list(_walk(place, root)) if is_folder else [_input(place, root)]
        kinds = {file.name: container(file.name, containers) for file in below}
        kind = next((one for one in _ORDER if one in kinds.values()), None)
        if "files" in containers and kind != "tar" and _has_pairs(below, labels, alone=kind is None):
            kind = "files"
        elif kind is None and not is_folder and containers != ("files",):
            kind = kinds[below[0].name] = _by_content(below[0], containers, config)
        for file in below:
            if kind == "files" and part(file.name, labels) is not None:
                pairs[file.name] = file
            elif kind is not None and kinds[file.name] == kind:
                found[file.name] = (kind, _inside(file, place) if is_folder else file)
            else:
                ignored += 1
    if pairs:
        found["."] = ("files", InputFile(name=".", path=root, size=sum(max(0, file.size) for file in pairs.values())))
    if not found:
        raise SourceError(
            f"there is nothing here that {config.format} reads",
            where=", ".join(sorted(map(str, config.paths))),
            hint="see `shardkit ingest --help` for the kinds of input of each format",
        )
    return Listing(
        roots=roots,
        inputs=tuple(entry for _, entry in sorted(found.items())),
        files=tuple(file for _, file in sorted(pairs.items())),
        ignored=ignored,
    )


def container(name: str, containers: tuple[str, ...]) -> str | None:
    """The container that a file's name promises, of those that the format takes."""
    folded = name.lower()
    for suffix in _COMPRESSED:
        folded = folded.removesuffix(suffix)
    kind = SUFFIXES.get(os.path.splitext(folded)[1])
    return kind if kind in containers else None


def _by_content(file: InputFile, containers: tuple[str, ...], config: IngestConfig) -> str:
    """The container of a file whose name says nothing."""
    stream = Stream(file)
    try:
        head = stream.read(512)
    except Damaged:
        head = b""
    finally:
        stream.close()
    if "parquet" in containers and head.startswith(b"PAR1"):
        return "parquet"
    if "tar" in containers and head[257:262] == b"ustar":
        return "tar"
    if "jsonl" in containers and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "jsonl"
    raise SourceError(
        f"{config.format} has no use for a file of this kind",
        where=file.name,
        hint="see `shardkit ingest --help` for the kinds of input of each format",
    )


def _existing(path: Path) -> str:
    resolved = os.path.realpath(path)
    try:
        mode = os.stat(resolved).st_mode
    except OSError as error:
        raise SourceError(
            f"the input cannot be read: {error.strerror}", where=str(path), hint="check the path and its permissions"
        ) from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SourceError(
            "the input is neither a file nor a folder", where=str(path), hint="give files or folders of files"
        )
    return resolved


def _folder(path: Path) -> str:
    resolved = os.path.realpath(path)
    if not os.path.isdir(resolved):
        raise ConfigError(
            "--images is no folder", where=str(path), hint="give the folder that image paths are relative to"
        )
    return resolved


def _common(places: list[str]) -> str:
    """The deepest folder that holds all PATHs."""
    return os.path.commonpath([place if os.path.isdir(place) else os.path.dirname(place) for place in places])


def _input(path: str, root: str) -> InputFile:
    try:
        size = os.stat(path).st_size
    except OSError:
        size = -1  # a broken link: met again when it is to be read
    return InputFile(name=os.path.relpath(path, root).replace(os.sep, "/"), path=path, size=size)


def _walk(place: str, root: str) -> Iterator[InputFile]:
    """Files below a folder, in order; hidden ones and the baggage of archivers are passed over."""
    for folder, folders, names in os.walk(place, onerror=_unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__MACOSX")
        for name in sorted(names):
            if not name.startswith("."):
                yield _input(os.path.join(folder, name), root)


def _unreadable(error: OSError) -> None:
    raise SourceError(
        f"a folder cannot be read: {error.strerror}", where=str(error.filename), hint="check its permissions"
    ) from error


def _inside(file: InputFile, place: str) -> InputFile:
    """`file` with its path resolved, which must not lead out of the folder it was found in."""
    path = os.path.realpath(file.path)
    if os.path.commonpath([path, place]) != place:
        raise SourceError(
            "a link leads out of the input folder", where=file.name, hint="name the file that it leads to as an input"
        )
    return InputFile(name=file.name, path=path, size=file.size)


def _has_pairs(files: list[InputFile], labels: tuple[str, ...], *, alone: bool) -> bool:
    """Whether an image and a label share a stem; with `alone` an image or label without partner will do."""
    roles: dict[str, set[str]] = {}
    for file in files:
        known = part(file.name, labels)
        if known is not None:
            roles.setdefault(known[0], set()).add(known[1])
    return any(alone or ("image" in found and len(found) > 1) for found in roles.values())
