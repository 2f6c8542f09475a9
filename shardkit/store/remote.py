"""Folders behind a URL: files read whole or fetched, again where that failed, and never without an end.

Any file system that fsspec knows: http(s), s3, gs, ... A process has its own connections; a fork makes new ones. What
changed behind the URL is found by size and digest; object stores and most HTTP servers give an ETag besides, which is
compared with the one that a file was fetched with.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from shardkit.digest import xxh3
from shardkit.errors import ConfigError, IntegrityError, OutputError, ShardkitError, SourceError
from shardkit.store.ending import check_going_on

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)
"""A path object makes one slash of two."""
_FIRST_WAIT = 0.1
_LONGEST_SILENCE = 10.0
"""Seconds that one question waits for a server, however long it is asked again: Ctrl-C waits for them, too."""
_LISTED_AT_ONCE = 16
_MISSING = (404, 410)
_FINAL = (400, 401, 403, *_MISSING)
"""HTTP answers that another try will not change."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)
"""What no connection fails with: the place that a file is fetched to is full or broken."""

Done = TypeVar("Done")


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteSettings:
    """How datasets behind URLs are reached, and where their files are kept."""

    cache: Path = field(default_factory=lambda: Path.home() / ".cache" / "shardkit")
    """Shared by all processes of the host; on a disk of its own."""
    limit: int = 100 << 30
    """Bytes of shards that are kept; tables and manifests lie beside them."""
    patience: float = 10.0
    """Seconds that a failing server is asked again, at growing distances; then the error is raised."""
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """For the file system of fsspec: {"anon": True}, {"endpoint_url": ...}, ..."""


def as_url(path: str | os.PathLike[str]) -> str | None:
    """The URL that is meant, also by a path object made of one; None for a local path."""
    match = _URL.fullmatch(os.fspath(path))
    if match is None:
        return None
    scheme, rest = match[1].lower(), match[2].rstrip("/")
    return f"{scheme}:///{rest}" if scheme in ("file", "memory") else f"{scheme}://{rest}"


def join_url(url: str, relative: str) -> str:
    """The URL of a path, `..` allowed, that is relative to the folder behind `url`."""
    scheme, rest = url.split("://", 1)
    root = "/" if rest.startswith("/") else ""
    return f"{scheme}://{root}{posixpath.normpath(posixpath.join('/', rest, relative)).lstrip('/')}"


Ranges = Callable[[int, int], bytes]
"""(first byte, behind the last byte) -> these bytes of a file."""


class NoRangesError(Exception):
    """A server gives whole files only."""


class _ShortError(EOFError):
    """Fewer bytes came than there are: the connection was cut where nobody says how many were to come."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What a server says of a file; None where it says nothing."""

    size: int | None
    etag: str | None


class Remote:
    """The folder behind a URL. It may be handed to other processes.

    Raises:
        ConfigError: where the package that speaks its protocol is not installed.
    """

    def __init__(self, url: str, settings: RemoteSettings) -> None:
        self.url = url
        self._settings = settings
        self._opened: tuple[int, Any] | None = None
        self._system()

    def name(self, relative: str) -> str:
        """The URL of a path, `..` allowed, that is relative to this folder."""
        return join_url(self.url, relative)

    def read(self, relative: str) -> bytes:
        """A small file, whole.

        Raises:
            IntegrityError: where it is missing.
            SourceError: where it cannot be read.
        """
        found: bytes = self._try(relative, lambda system, path: system.cat_file(path))
        return found

    def fetch(self, relative: str, target: Path, *, size: int) -> None:
        """Write a file to `target`; what has another size than `size` bytes still after some tries is left there.

        Raises:
            IntegrityError: where it is missing.
            SourceError: where it cannot be read.
            OutputError: where it cannot be written.
        """

        def act(system: Any, path: str) -> None:
            try:
                system.get_file(path, str(target), callback=_give_up_callback(self.name(relative)))
            except OSError as error:
                disk = error.errno in _OF_THE_DISK and not self.url.startswith("file:")
                if disk or error.filename == str(target):
                    raise OutputError.from_os(error, str(target)) from error
                raise
            if target.stat().st_size < size:
                raise _ShortError(f"{target.stat().st_size} of {size} bytes came")

        try:
            self._try(relative, act)
        except SourceError as error:
            if not isinstance(error.__cause__, _ShortError):
                raise

    def ranges(self, relative: str) -> Ranges:
        """Opens a file to read parts of it.

        Raises:
            NoRangesError: by it or by what it returns, where the server gives whole files only.
        """
        file = self._try(relative, lambda system, path: system.open(path, "rb", cache_type="none"))
        if not file.seekable():
            raise NoRangesError(self.name(relative))

        def read(start: int, stop: int) -> bytes:
            def act(_system: Any, _path: str) -> bytes:
                file.seek(start)
                data: bytes = file.read(stop - start)
                return data

            try:
                return self._try(relative, act)
            except ValueError as error:  # fsspec, of an answer that is no part
                raise NoRangesError(self.name(relative)) from error

        return read

    def facts(self, relatives: Sequence[str]) -> Iterator[Facts | ShardkitError]:
        """What the server says of files, or why it says nothing; asked for several at once, in their order."""

        def ask(relative: str) -> Facts | ShardkitError:
            try:
                found = self._try(relative, lambda system, path: system.info(path))
            except ShardkitError as error:
                return error
            etag = next((found[key] for key in ("ETag", "etag") if found.get(key)), None)
            return Facts(size=found.get("size"), etag=None if etag is None else str(etag).strip('"'))

        with ThreadPoolExecutor(_LISTED_AT_ONCE, thread_name_prefix="shardkit-remote") as pool:
            yield from pool.map(ask, relatives)

    def _try(self, relative: str, act: Callable[[Any, str], Done]) -> Done:
        name, wait, deadline = self.name(relative), _FIRST_WAIT, None
        while True:
            began = time.monotonic()
            try:
                system = self._system()
                return act(system, system._strip_protocol(name))
            except PermissionError as error:
                raise self._unreachable(name, "access is denied") from error
            except _failures() as error:
                failure = _behind(error)
                if isinstance(failure, FileNotFoundError) or getattr(failure, "status", None) in _MISSING:
                    raise IntegrityError(
                        "the file is missing", where=name, hint="restore it, or build the dataset again from its inputs"
                    ) from error
                deadline = deadline or began + self._settings.patience
                if getattr(failure, "status", None) in _FINAL or time.monotonic() + wait > deadline:
                    raise self._unreachable(name, _short(failure)) from failure
            time.sleep(wait)
            check_going_on(name)
            wait *= 2

    def _unreachable(self, name: str, why: str) -> SourceError:
        return SourceError(
            f"the file cannot be read ({why})", where=name, hint="check the URL, the network and the credentials"
        )

    def _system(self) -> Any:
        """The file system of this process."""
        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = (os.getpid(), _file_system(self.url, self._settings))
        return self._opened[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _file_system(url: str, settings: RemoteSettings) -> Any:
    scheme = url.split("://", 1)[0]
    hint = "pip install 'shardkit[remote]', or the package that fsspec names for it"
    try:
        import fsspec

        kind = fsspec.get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"{scheme} URLs need a package: {error}", where=url, hint=hint) from error
    limits = _limits_of_time(scheme, min(settings.patience / 2, _LONGEST_SILENCE))
    return kind(**{**limits, **settings.options, "skip_instance_cache": True})


def _give_up_callback(name: str) -> Any:
    """Called with each piece of a file that came; ends a fetch that nobody waits for."""
    from fsspec.callbacks import Callback

    class GiveUp(Callback):  # type: ignore[misc]  # fsspec has no types
        def relative_update(self, inc: int = 1) -> None:
            check_going_on(name)
            super().relative_update(inc)

    return GiveUp()


def _limits_of_time(scheme: str, seconds: float) -> dict[str, Any]:
    """Options with which a server that says nothing is given up; nothing limits how long a large file may take."""
    if scheme in ("http", "https"):
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=seconds, sock_read=seconds)
        return {"client_kwargs": {"timeout": timeout}}
    if scheme in ("s3", "s3a"):
        once = {"connect_timeout": seconds, "read_timeout": seconds, "retries": {"max_attempts": 1}}
        return {"config_kwargs": once, "use_listings_cache": False}
    return {}


def _failures() -> tuple[type[BaseException], ...]:
    """What the clients that are in use raise when something fails on the way."""
    found: list[type[BaseException]] = [OSError, EOFError, TimeoutError]
    for module, name in (
        ("asyncio", "TimeoutError"),
        ("aiohttp", "ClientError"),
        ("botocore.exceptions", "BotoCoreError"),
        ("botocore.exceptions", "ClientError"),
        ("fsspec.exceptions", "FSTimeoutError"),
    ):
        if module in sys.modules:
            found.append(getattr(sys.modules[module], name))
    return tuple(found)


def _behind(error: BaseException) -> BaseException:
    """What really failed: fsspec says that a file is not there whatever became of its question for the size."""
    cause = error.__cause__
    return cause if isinstance(error, FileNotFoundError) and isinstance(cause, _failures()) else error


def _short(error: BaseException) -> str:
    text = str(error).split("\n")[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def folder_name(url: str) -> str:
    """A name for what is kept of a URL."""
    return xxh3(url.encode())
