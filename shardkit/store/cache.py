"""The cache of a host: files of remote datasets, named by their content, shared by all processes.

    CACHE/objects/<2 digits>/<xxh3-128><suffix>       whole files, published when their digest was compared
    CACHE/parts/<xxh3-128><suffix>.<bytes>.part       what is being fetched; its name reserves the room
    CACHE/locks/<xxh3-128><suffix>                    held by the one process that fetches the file
    CACHE/locks/room                                  held while room is made

Locks are flocks: the kernel frees those of a killed process, and no name in shared memory outlives it. A reader holds a
shared lock on the very file that it has mapped, so what is in use goes last; where it has to go, its name goes and the
reader keeps its bytes.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from shardkit.errors import ConfigError, OutputError, ShardkitError
from shardkit.store.ending import check_going_on
from shardkit.store.files import compare, digest_file, make_folder, output_errors, sync_folder

_DAMAGED = "restore the remote file, or build the dataset again from its inputs"
_POLL = 0.02
"""Seconds between looks for what another process has: a lock, or room for its downloads."""

_HINT = "free some space there, or keep the cache elsewhere: --cache DIR, RemoteSettings(cache=...)"


@contextmanager
def cache_errors() -> Iterator[None]:
    """Say of what cannot be written that it is the cache, not the output of a command."""
    try:
        yield
    except OutputError as error:
        raise OutputError(error.what.replace("the output", "the cache"), where=error.where, hint=_HINT) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held:
    path: Path
    size: int
    used: int
    """When it was used last, in nanoseconds."""


class Cache:
    """Files by digest, within a limit.

    Args:
        folder: made where it is not there.
        limit: bytes of all files together.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._failed: dict[str, tuple[float, ShardkitError]] = {}
        """Name of a file that could not be fetched here -> when that was known, and why: who waited for it is told the same."""

    def path(self, key: str, suffix: str) -> Path:
        """Where a file lies when it is there."""
        return self.folder / "objects" / key[:2] / f"{key}{suffix}"

    def open(
        self, key: str, suffix: str, size: int, fetch: Callable[[Path], None], *, name: str, content: str | None = None
    ) -> BinaryIO:
        """The file, held as long as it is open or mapped; fetched where it is not there, by one process of the host.

        Args:
            key: the file's digest, or that of the file it belongs to.
            fetch: writes the file to a path.
            name: of the remote file, for messages.
            content: the file's digest, where it is not the key.

        Raises:
            IntegrityError: where what was fetched is not digest and size say; nothing of it stays.
            ConfigError: where the file is larger than the limit.
            OutputError: where the cache cannot be written.
        """
        path = self.path(key, suffix)
        with cache_errors():
            file = _held(path, size)
            if file is not None:
                return file
            began = time.monotonic()
            with self.lock(path.name):
                # Another process may have fetched it while this one waited, or another thread may have failed to.
                file = _held(path, size)
                if file is not None:
                    return file
                when, error = self._failed.get(path.name, (began, None))
                if error is not None and when > began:
                    raise copy.copy(error)
                try:
                    return self._fetch(path, content or key, size, fetch, name)
                except ShardkitError as failure:
                    self._failed[path.name] = (time.monotonic(), failure)
                    raise

    def drop(self, path: Path) -> None:
        """Take a damaged file out, so that it is fetched anew when it is asked for again."""
        with contextlib.suppress(OSError):
            path.unlink()

    def _fetch(self, path: Path, digest: str, size: int, fetch: Callable[[Path], None], name: str) -> BinaryIO:
        parts = self.folder / "parts"
        make_folder(parts)
        # Of a process that was killed: the lock is ours. The index of a tar has the tar's name and more, and a lock of its own.
        for left in parts.glob(f"{path.name}.[0-9]*.part"):
            self.drop(left)
        part = parts / f"{path.name}.{size}.part"
        try:
            self._make_room(size, part, name)
            fetch(part)
            compare(digest_file(part), (size, digest), where=name, hint=_DAMAGED)
            make_folder(path.parent)
            with output_errors(path):
                file = part.open("rb")
                os.fsync(file.fileno())
                fcntl.flock(file, fcntl.LOCK_SH)  # held before it has its name: nobody takes it out in between
                os.replace(part, path)
            sync_folder(path.parent)
            return file
        finally:
            self.drop(part)

    def _make_room(self, size: int, part: Path, name: str) -> None:
        """Reserve room for a file, by the name of its part.

        Raises:
            ConfigError: where no room can ever be made.
        """
        if size > self.limit:
            raise ConfigError(
                f"the file has {size} bytes, the cache holds {self.limit} at most",
                where=name,
                hint="raise the limit of the cache (--cache-limit, RemoteSettings(limit=...)), or write smaller shards (--shard-size)",
            )
        while True:
            with self.lock("room"):
                reserved = sum(int(other.name.split(".")[-2]) for other in (self.folder / "parts").glob("*.part"))
                files = sorted(self._files(), key=lambda held: held.used)
                excess = reserved + size + sum(held.size for held in files) - self.limit
                # Those in use go last: their bytes stay with whoever has them mapped.
                for held in [*filter(_is_free, files), *files]:
                    if excess <= 0:
                        break
                    if held.path.exists():
                        self.drop(held.path)
                        excess -= held.size
                if excess <= 0:
                    with output_errors(part):
                        part.touch()
                    return
                self._drop_orphans()
            check_going_on(name)
            time.sleep(_POLL)  # other downloads take the room; each ends, or its process does

    def _drop_orphans(self) -> None:
        """Take out the parts of processes that were killed."""
        for part in (self.folder / "parts").glob("*.part"):
            name = part.name.rsplit(".", 2)[0]
            with contextlib.suppress(BlockingIOError), self.lock(name, wait=False):
                self.drop(part)

    def _files(self) -> Iterator[_Held]:
        for path in (self.folder / "objects").glob("*/*"):
            with contextlib.suppress(OSError):  # another process took it out
                found = path.stat()
                yield _Held(path=path, size=found.st_size, used=found.st_atime_ns)

    @contextmanager
    def lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Held by one process of the host at a time.

        Raises:
            BlockingIOError: where another one holds it and this one is not to wait.
        """
        folder = self.folder / "locks"
        make_folder(folder)
        with output_errors(folder / name):
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while not _is_locked(descriptor):
                if not wait:
                    raise BlockingIOError(name)
                check_going_on(name)
                time.sleep(_POLL)
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # by hand: a process that was forked in between has it open, too
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Whether this process has the lock now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _held(path: Path, size: int) -> BinaryIO | None:
    """The file, open and held; None where it is not there, or not whole."""
    with output_errors(path):
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        fcntl.flock(file, fcntl.LOCK_SH)
        found = os.fstat(file.fileno())
    if not found.st_nlink:  # it went between the two calls
        file.close()
        return None
    if found.st_size != size:
        file.close()
        with output_errors(path):
            path.unlink(missing_ok=True)
        return None
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
    return file


def _is_free(held: _Held) -> bool:
    try:
        with held.path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
