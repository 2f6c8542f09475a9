"""Which files a run reads: the PATHs of the command line, folders walked in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shardkit.errors import ConfigError, SourceError
from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.containers.line_pairs import both, partner
from shardkit.prepare.ingest.containers.lines import are_values
from shardkit.prepare.ingest.containers.mds import index_beside
from shardkit.prepare.ingest.containers.naming import PLAIN, Naming
from shardkit.prepare.ingest.containers.pairs import part
from shardkit.prepare.ingest.containers.side_table import Folders
from shardkit.prepare.ingest.containers.streams import Damaged, Stream, as_utf8
from shardkit.prepare.ingest.containers.tars import IMAGE_SUFFIXES, suffix
from shardkit.prepare.ingest.reasons import plain
from shardkit.prepare.ingest.roots import Roots, as_text
from shardkit.prepare.ingest.units import InputFile
from shardkit.prepare.named import check_dump
from shardkit.store.files import is_text

_OPENED_BY_ARROW = ("arrow", "mds", "parquet", "tar")
"""Containers that are Arrow's files, or may have some beside them."""
SUFFIXES: dict[str, tuple[str, ...]] = {
    ".jsonl": ("jsonl",), ".ndjson": ("jsonl",), ".parquet": ("parquet",), ".tar": ("tar",), ".tgz": ("tar",),
    ".csv": ("table",), ".tsv": ("table",), ".token": ("table",), ".txt": ("lines", "table"), ".json": ("json", "lines"),
    ".mat": ("mat",), ".arrow": ("arrow",), ".mds": ("mds",),
}  # fmt: skip
"""Suffix -> containers that it may promise; a suffix of compression behind it is looked through."""
_COMPRESSED = (".gz", ".zst", ".zstd", ".bz2", ".br", ".snappy")
_PACKED = (".zip", ".7z", ".rar", ".tar", ".tgz", ".xz", ".mdb", *_COMPRESSED)
"""Ends of files that hold others."""
_HELP = "see `shardkit ingest --help` for the kinds of input of each format"
_READ = ".pred.txt"
_LISTS = ("lines", "json")
"""Containers whose suffix says little: a file found in a folder is looked into. So is a .txt that may be a table."""
_TOLD_BY_CONTENT = frozenset({"parquet", "tar", "jsonl"})
"""Containers that a file's first bytes tell, whatever its name."""
_SNIFFED = 1 << 16
"""Bytes that are looked into."""
_TOGETHER = (frozenset({"table", "parquet"}), frozenset(_LISTS))
"""Containers of which a folder may hold several: tables, and lists that were looked into."""
_ORDER = ("tar", "table", "parquet", "arrow", "mds", "jsonl", "mat", "line_pairs", *_LISTS)
"""Of the containers in one folder, the first kind that the format takes is read, with those of its set in _TOGETHER; the
others stand beside it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    roots: Roots
    inputs: tuple[tuple[str, InputFile], ...]
    """(container, file), in the order of names; for folders of pairs one entry ("files", the root)."""
    files: tuple[InputFile, ...]
    """The files below folders of pairs."""
    naming: Naming
    """What is no part of a stem in folders of pairs."""
    ignored: int
    """Files below the PATHs that the format has no use for, apart from pictures that records may name."""

    @property
    def names(self) -> list[str]:
        """What a rerun must be given again."""
        return sorted({one.name for _, file in self.inputs for one in (file, *file.beside)})


def list_inputs(
    config: IngestConfig,
    containers: tuple[str, ...],
    labels: tuple[str, ...],
    naming: Naming = PLAIN,
    is_list: Callable[[str, bytes], bool] | None = None,
) -> Listing:
    """The inputs of a run.

    Args:
        naming: what is no part of a stem where no image and label share one as they stand.
        is_list: whether a file found in a folder, by its name and first bytes, is a list of labels. Without it every
            file of a container's suffix is one. A file that the user names is one in any case.

    Raises:
        SourceError: where a PATH is missing, a dataset, or of no kind that the format takes.
    """
    places = sorted({_existing(path) for path in config.paths})
    root = _common([*places, *([] if config.root is None else [os.path.realpath(config.root)])])
    roots = Roots(
        input_root=root,
        images=tuple(_folder(path) for path in config.images),
        maps=tuple(_map_root(os.path.realpath(path)) for path in config.url_maps),
    )
    found: dict[str, tuple[str, InputFile]] = {}
    pairs: dict[str, InputFile] = {}
    ignored: set[str] = set()
    joined = naming.whole
    look = _Look(containers=containers, labels=labels, naming=naming, is_list=is_list)
    alone = {stem for place in places if (stem := _image_stem(place, labels)) is not None}
    for place in places:
        is_folder = os.path.isdir(place)
        below = list(_walk(place, root)) if is_folder else [_input(place, root)]
        if is_folder:
            kind, kinds, by_naming = look.at_folder(below)
            joined |= by_naming
        else:
            kind, kinds = look.at_file(below[0], config, alone)
        for file in below:
            _alone_of_its_name(file, pairs.get(file.name))
            if kind == "files" and part(file.name, labels, naming if joined else PLAIN) is not None:
                pairs[file.name] = file
            elif (own := kinds[file.name]) is not None and (
                own == kind or any({own, kind} <= some for some in _TOGETHER)
            ):
                found[file.name] = (own, _inside(file, place) if is_folder else file)
            elif kind == "tar" or suffix(file.name) not in IMAGE_SUFFIXES:
                ignored.add(file.name)
    for name in _read_by_models(pairs) if ".gt.txt" in labels else ():
        del pairs[name]
        ignored.add(name)
    if pairs:
        found["."] = ("files", InputFile(name=".", path=root, size=sum(max(0, file.size) for file in pairs.values())))
    for name in [name for name, (kind, _) in found.items() if kind == "line_pairs"]:
        whole = both(found.pop(name)[1])
        found[whole.name] = ("line_pairs", whole)
    if not found:
        raise SourceError(
            f"there is nothing here that {config.format} reads",
            where=", ".join(sorted(map(str, config.paths))),
            hint=next_step([*map(str, config.paths), *sorted(ignored)]),
        )
    for kind, file in found.values():
        if kind in _OPENED_BY_ARROW and not is_text(file.path):
            raise SourceError(
                "the path of this file is no UTF-8, which Arrow cannot open",
                where=file.name,
                hint="rename it, or name it by a link",
            )
    folders = Folders()
    inputs = [(kind, _with_tables(file, kind, folders)) for _, (kind, file) in sorted(found.items())]
    return Listing(
        roots=roots,
        inputs=tuple(inputs),
        files=tuple(file for _, file in sorted(pairs.items())),
        naming=naming if joined else PLAIN,
        ignored=len(ignored - {table.name for _, file in inputs for table in file.beside}),
    )


def files_below(paths: Iterable[Path]) -> Iterator[InputFile]:
    """The files that PATHs name or hold, in the order of their names, whatever their kind.

    Raises:
        SourceError: where a PATH is missing, or a dataset.
    """
    places = sorted({_existing(path) for path in paths})
    root = _common(places)
    for place in places:
        if os.path.isdir(place):
            yield from _walk(place, root)
        else:
            yield _input(place, root)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """What a format takes, to tell what a folder or file holds."""

    containers: tuple[str, ...]
    labels: tuple[str, ...]
    naming: Naming
    is_list: Callable[[str, bytes], bool] | None

    def at_folder(self, below: list[InputFile]) -> tuple[str | None, dict[str, str | None], bool]:
        """The container of a folder's records, that of each file by its name, and whether stems go by `naming`."""
        kinds = {file.name: container(file.name, self.containers) for file in below}
        if "line_pairs" in self.containers:
            kinds.update((file.name, "line_pairs") for file in below if partner(file.name) in kinds)
        pairs = "files" in self.containers and "tar" not in kinds.values()
        by_stem = pairs and not self.naming.whole
        if by_stem and _has_pairs(below, self.labels):
            return "files", kinds, False
        if by_stem and self.naming is not PLAIN and _has_pairs(below, self.labels, self.naming):
            return "files", kinds, True
        for file in below:
            kinds[file.name] = self._looked_into(file, kinds[file.name])
        kind = next((one for one in _ORDER if one in kinds.values()), None)
        naming = PLAIN if by_stem else self.naming
        if pairs and kind is None and _has_pairs(below, self.labels, naming, alone=True):
            kind = "files"
        return kind, kinds, False

    def _looked_into(self, file: InputFile, kind: str | None) -> str | None:
        """The container of a file in a folder whose name promises `kind`: none where it turns out to be no list."""
        if kind not in _LISTS and not _may_be_table(file.name, kind):
            return kind
        if self.is_list is None:
            return kind if kind in _LISTS else None
        head = _head(file, _SNIFFED)
        told = self._of_json(head) if _ends(file.name, ".json") else kind
        return told if told == "jsonl" or self.is_list(file.name, head) else None

    def _of_json(self, head: bytes) -> str | None:
        """The container of a .json by its first bytes: JSON lines and lists of PATH TAB text are called so as well."""
        if "jsonl" in self.containers and are_values(head):
            return "jsonl"
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if "lines" in self.containers and b"\t" in start.split(b"\n", 1)[0] and not start.startswith(b"{"):
            return "lines"
        return "json" if "json" in self.containers else None

    def at_file(
        self, file: InputFile, config: IngestConfig, images: set[str]
    ) -> tuple[str | None, dict[str, str | None]]:
        """The container of the records of a file that the user names; a label beside its named image is one of a pair."""
        kind = container(file.name, self.containers)
        if "line_pairs" in self.containers and partner(file.name) is not None:
            kind = "line_pairs"
        elif kind in _LISTS and _ends(file.name, ".json"):
            kind = self._of_json(_head(file, _SNIFFED))
        elif _may_be_table(file.name, kind) and not config.fields:
            kind = self._looked_into(file, kind)
        known = part(file.path, self.labels) if "files" in self.containers else None
        if known is not None and (kind is None or known[0] in images):
            kind = "files"
        elif kind is None and not _TOLD_BY_CONTENT.isdisjoint(self.containers):
            kind = _by_content(file, self.containers, config)
        return kind, {file.name: kind}


def _with_tables(file: InputFile, kind: str, folders: Folders) -> InputFile:
    """`file` with what stands beside it and says more of its records."""
    if kind == "tar":
        return replace(file, beside=folders.tables_beside(file))
    return replace(file, beside=index_beside(file)) if kind == "mds" else file


def _image_stem(place: str, labels: tuple[str, ...]) -> str | None:
    known = part(place, labels)
    return known[0] if known is not None and known[1] == "image" else None


def container(name: str, containers: tuple[str, ...]) -> str | None:
    """The container that a file's name promises, of those that the format takes."""
    folded = name.lower()
    for ending in _COMPRESSED:
        folded = folded.removesuffix(ending)
    return next((kind for kind in SUFFIXES.get(os.path.splitext(folded)[1], ()) if kind in containers), None)


def _may_be_table(name: str, kind: str | None) -> bool:
    """Whether a file is called like a text and may hold a table all the same."""
    return kind == "table" and _ends(name, ".txt")


def _ends(name: str, ending: str) -> bool:
    """Whether a file is called so, packed or not."""
    folded = name.lower()
    return any(folded.removesuffix(packed).endswith(ending) for packed in _COMPRESSED)


def _by_content(file: InputFile, containers: tuple[str, ...], config: IngestConfig) -> str:
    """The container of a file whose name says nothing."""
    head = _head(file, 512)
    if "parquet" in containers and head.startswith(b"PAR1"):
        return "parquet"
    if "tar" in containers and head[257:262] == b"ustar":
        return "tar"
    if "jsonl" in containers and head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "jsonl"
    raise SourceError(
        f"{config.format} has no use for a file of this kind",
        where=file.name,
        hint=next_step([file.name]),
    )


def next_step(names: Iterable[str], otherwise: str = _HELP) -> str:
    """What to do where nothing is read of files of these names: archives are unpacked first."""
    packed = next((name for name in names if name.lower().endswith(_PACKED)), None)
    return otherwise if packed is None else f"unpack {plain(os.path.basename(packed))} and give the folder of its files"


def _head(file: InputFile, size: int) -> bytes:
    """The first bytes of a file, unpacked; none where it cannot be read."""
    stream = Stream(file)
    try:
        return as_utf8(stream.read(size))
    except (Damaged, SourceError):
        return b""  # met again, and named, where its records are read
    finally:
        stream.close()


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
    check_dump(path)
    return resolved


def _folder(path: Path) -> str:
    resolved = os.path.realpath(path)
    if not os.path.isdir(resolved):
        raise ConfigError(
            "--images is no folder", where=str(path), hint="give the folder that image paths are relative to"
        )
    return resolved


def _map_root(place: str) -> str:
    """Where the pictures of a map lie."""
    return place if os.path.isdir(place) else os.path.dirname(place)


def _common(places: list[str]) -> str:
    """The deepest folder that holds all PATHs."""
    return os.path.commonpath([place if os.path.isdir(place) else os.path.dirname(place) for place in places])


def _input(path: str, root: str) -> InputFile:
    try:
        size = os.stat(path).st_size
    except OSError:
        size = -1  # a broken link: met again when it is to be read
    return InputFile(name=as_text(os.path.relpath(path, root).replace(os.sep, "/")), path=path, size=size)


def _alone_of_its_name(file: InputFile, other: InputFile | None) -> None:
    """Two files have one name where one is spelled as the other's bytes are written; a folder may be named twice."""
    if other is not None and other.path != file.path:
        raise SourceError(
            "two files have this name when bytes that are no UTF-8 are written out",
            where=file.name,
            hint="rename one of them",
        )


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
    return replace(file, path=path)


def _read_by_models(pairs: Mapping[str, InputFile]) -> list[str]:
    """Names of what a model read of a line, as Calamari writes it beside the picture and its ground truth: no labels."""
    read = {name: name.removesuffix(_READ) for name in pairs if name.endswith(_READ)}
    if not read:
        return []
    pictured = {name.rpartition(".")[0] for name in pairs if suffix(name) in IMAGE_SUFFIXES}
    return [name for name, stem in read.items() if f"{stem}.gt.txt" in pairs and f"{stem}.pred" not in pictured]


def _has_pairs(files: list[InputFile], labels: tuple[str, ...], naming: Naming = PLAIN, *, alone: bool = False) -> bool:
    """Whether an image and a label share a stem; with `alone` an image or label without partner will do."""
    roles: dict[str, set[str]] = {}
    for file in files:
        known = part(file.name, labels, naming)
        if known is not None:
            roles.setdefault(known[0], set()).add(known[1])
    return any(alone or ("image" in found and len(found) > 1) for found in roles.values())
