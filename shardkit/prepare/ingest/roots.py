"""Which files may be read: only regular files whose resolved path lies inside a root.

A path that came from data is resolved first and compared afterwards; `..`, absolute paths and links are all
judged by where they end. Nothing outside is opened, no device or pipe is opened, no address is fetched.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO

import xxhash

from shardkit.digest import xxh3
from shardkit.errors import SourceError
from shardkit.prepare.ingest.reasons import Bad, plain

_BLOCK = 1 << 20
_WRITTEN_OUT = re.compile(rb"\\x([89a-f][0-9a-f])")
"""A byte that is no ASCII, as `as_text` writes it."""
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRead:
    """A file that was read, or found missing, while a record was made: what `unchanged` compares later."""

    name: str
    """Relative to the input root; `@images<k>/...` and `@map<k>/...` below the other roots; see also `missing`."""
    size: int
    """In bytes; -1 where the file could not be read."""
    xxh3: str
    """xxh3-128 of its bytes; empty where it could not be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roots:
    """The folders that paths in the data may lead into, resolved."""

    input_root: str
    images: tuple[str, ...] = ()
    """Folders of --images; empty means the folder of each input."""
    maps: tuple[str, ...] = ()
    """Folders of the files of --url-map."""

    def of_input(self, folder: str) -> tuple[str, ...]:
        """Where the paths of an input in `folder` (relative to the input root) are looked for, in order."""
        return self.images or (os.path.join(self.input_root, folder) if folder else self.input_root,)

    def name(self, path: str) -> str:
        """The name under which a resolved path is recorded; never an absolute path."""
        for prefix, root in self._named():
            if _inside(path, root):
                return as_text(prefix + path[len(root) :].lstrip(os.sep).replace(os.sep, "/"))
        raise AssertionError(f"a path outside every root was read: {path}")

    def path(self, name: str) -> str | None:
        """The file that `name` recorded; None where this run has no such root."""
        prefix, slash, rest = name.partition("/")
        root, below = self.input_root, name
        if prefix.startswith("@"):
            named = dict(self._named())
            if prefix + slash not in named:
                return None
            root, below = named[prefix + slash], rest
        path = os.path.join(root, below)
        return path if "\\x" not in below or os.path.lexists(path) else os.path.join(root, as_path(below))

    def _named(self) -> list[tuple[str, str]]:
        images = [(f"@images{k}/", root) for k, root in enumerate(self.images)]
        return [("", self.input_root), *images, *((f"@map{k}/", root) for k, root in enumerate(self.maps))]


def as_text(path: str) -> str:
    """A path as tables can hold it: bytes that are no UTF-8 are written out, as in `caf\\xe9.png`."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "backslashreplace")


def as_path(text: str) -> str:
    """The path that `as_text` wrote out."""
    return os.fsdecode(_WRITTEN_OUT.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(text)))


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith(os.sep) else root + os.sep)


def is_address(text: str) -> bool:
    """Whether `text` is an address (https:, file:, data:, //host) and no path."""
    return bool(_ADDRESS.match(text)) or text.startswith("//")


def locate(text: str, roots: tuple[str, ...], folders: dict[str, str] | None = None) -> str:
    """The resolved path of the regular file that `text` names below one of `roots`.

    Args:
        folders: remembers for a while to where folders resolve: most files of a dump lie in few of them.

    Raises:
        Bad: where it leads outside, or is no regular file.
    """
    if not text or "\0" in text:
        raise Bad("asset_missing", "an empty path or one with a NUL names no file")
    outside = True
    for spelling, root in ((spelling, root) for spelling in _spellings(text) for root in roots):
        try:
            path = _resolved(os.path.join(root, spelling), folders)
            if not _inside(path, root):
                continue
            outside = False
            mode = os.stat(path).st_mode
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise _unreadable(error, text) from None
            continue
        _regular(mode, text)
        return path
    if outside:
        raise Bad("path_outside", f"{plain(text)} leads out of the folders that may be read")
    raise Bad("asset_missing", f"there is no file {plain(text)}")


def _resolved(path: str, folders: dict[str, str] | None) -> str:
    """`os.path.realpath`, which looks at every folder on the way again."""
    folder, name = os.path.split(path)
    if folders is None or name in ("", ".", ".."):
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    path = os.path.join(folders[folder], name)
    return os.path.realpath(path) if os.path.islink(path) else path


def _spellings(text: str) -> Iterable[str]:
    """A path as it stands, then in the other forms of Unicode and with `/` for backslashes: a dump moves between systems."""
    yield text
    if not text.isascii():
        yield from (form for kind in ("NFC", "NFD") if (form := unicodedata.normalize(kind, text)) != text)
    if "\\" in text:
        yield as_path(text)
        yield text.replace("\\", "/")


def locate_address(address: str, roots: tuple[str, ...]) -> str | None:
    """The resolved path of the file that is named by a digest of `address`, below one of `roots`.

    Stores of fetched pictures name a file by the sha256, sha1 or md5 of its address, with or without an extension and a
    folder of the first two digits.
    """
    names = digest_names(address)
    for root in roots:
        folders = {name[:2]: os.path.isdir(os.path.join(root, name[:2])) for name in names if name[2] == "/"}
        for name in names:
            if (name[2] != "/" or folders[name[:2]]) and os.path.lexists(f"{root}/{name}"):
                try:
                    return locate(name, (root,))
                except Bad:
                    continue
    return None


def digest_names(address: str) -> tuple[str, ...]:
    """The names that a file of `address` may have."""
    data = address.encode("utf-8", "surrogatepass")
    digests = (
        hashlib.sha256(data),
        hashlib.sha1(data, usedforsecurity=False),
        hashlib.md5(data, usedforsecurity=False),
    )
    extension = os.path.splitext(address.split("?", 1)[0].split("#", 1)[0])[1]
    known = (extension,) if extension.isascii() and extension[1:].isalnum() and len(extension) < 6 else ()
    extensions = dict.fromkeys((*known, ".jpg", ".jpeg", ".png", ".webp", ".gif", ""))
    stems = [digest.hexdigest() for digest in digests]
    return tuple(f"{folder}{stem}{end}" for stem in stems for folder in ("", f"{stem[:2]}/") for end in extensions)


def read_bounded(path: str, max_bytes: int, shown: str) -> bytes:
    """All bytes of the resolved `path`, which must be a regular file of at most `max_bytes`.

    Raises:
        Bad: with the cause.
    """
    try:
        # A link put there since it was resolved is not followed, and a pipe does not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as handle:
            state = os.fstat(descriptor)
            _regular(state.st_mode, shown)
            if state.st_size > max_bytes:
                raise Bad("too_many_bytes", f"{plain(shown)} has {state.st_size} bytes, the limit is {max_bytes}")
            return handle.readall()
    except OSError as error:
        raise _unreadable(error, shown) from None


def _regular(mode: int, text: str) -> None:
    if stat.S_ISDIR(mode):
        raise Bad("asset_folder", f"{plain(text)} is a folder")
    if not stat.S_ISREG(mode):
        raise Bad("asset_special", f"{plain(text)} is no regular file")


def _unreadable(error: OSError, text: str) -> Bad:
    reasons = {
        errno.ENOENT: ("asset_missing", "there is no file"),
        errno.ENOTDIR: ("asset_missing", "there is no file"),
        errno.ENAMETOOLONG: ("asset_missing", "there can be no file"),
        errno.EACCES: ("asset_unreadable", "no permission to read"),
        errno.EPERM: ("asset_unreadable", "no permission to read"),
        errno.ELOOP: ("asset_loop", "a link that leads to itself:"),
        errno.EISDIR: ("asset_folder", "a folder:"),
    }
    reason, words = reasons.get(error.errno or 0, ("asset_io", f"reading failed ({error.strerror}):"))
    return Bad(reason, f"{words} {plain(text)}")


def open_input(path: str, shown: str) -> IO[bytes]:
    """An input file that the user named, open for reading.

    Raises:
        SourceError: where it is not there, cannot be read, or is no regular file.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise SourceError("the input is no regular file", where=shown, hint="give files or folders of files")
        return open(path, "rb")
    except OSError as error:
        raise SourceError(
            f"the input cannot be read: {error.strerror}", where=shown, hint="check the path and its permissions"
        ) from error


MISSING = "@missing/"
"""How the name begins of what was looked for and not found."""


def missing(text: str, folder: str) -> FileRead:
    """The note that `text`, in an input of `folder` (relative to the input root), led to no file."""
    return FileRead(name=f"{MISSING}{folder}//{text}", size=-1, xxh3="")


def still_missing(note: FileRead, roots: Roots) -> bool:
    """Whether what `missing` noted leads to no file now either."""
    folder, _, text = note.name.removeprefix(MISSING).partition("//")
    places = (*roots.of_input(folder), *roots.maps)
    if is_address(text):
        return locate_address(text, places) is None
    try:
        locate(text, places)
    except Bad:
        return True
    return False


def digest_input(path: str, name: str) -> FileRead:
    """Size and xxh3-128 of an input file, read from its first byte to its last.

    Raises:
        SourceError: where it cannot be read.
    """
    digest = xxhash.xxh3_128()
    size = 0
    with open_input(path, name) as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return FileRead(name=name, size=size, xxh3=digest.hexdigest())


def file_read(name: str, data: bytes) -> FileRead:
    """The record of having read `data` from the file `name`."""
    return FileRead(name=name, size=len(data), xxh3=xxh3(data))
